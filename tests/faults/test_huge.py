"""What a platform stores without a bound costs a sweep none of its memory (G35)."""

import pytest

from deployments.postgres import LocalPostgres
from tests.faults.test_bounds import Sweeping, own_database, query
from tests.sites import FIRST

HUGE = "repeat('x', 8000000)"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.mark.guarantee(
    fault=(
        "25 stuck sites whose webhook, key, domain and step have 8 MB each, and others whose "
        "hold, deadline or start has (G35)"
    ),
    holds="Reaped, and the peak memory of the whole process is below 200 MiB",
)
def test_texts_of_megabytes_cost_a_sweep_no_memory(
    postgres: LocalPostgres, migrated_template: str, prefect_api: str
) -> None:
    with own_database(postgres, migrated_template, "huge") as url:
        query(url, "DELETE FROM sites")
        query(
            url,
            f"INSERT INTO sites SELECT {FIRST} + i, {HUGE}, jsonb_build_object('provision',"
            " jsonb_build_object('started_at', '2025-01-15T14:00:00Z',"
            f" 'webhook', 'https://merchant.example/' || {HUGE}, 'step', {HUGE},"
            f" 'webhook_secret', {HUGE})) FROM generate_series(1, 25) AS i",
        )
        for n, (started, key, value) in enumerate(
            [
                ("'2025-01-15T14:00:00Z'", "hold", HUGE),
                ("'2025-01-15T14:00:00Z'", "deadline", HUGE),
                (HUGE, "step", "'dns'"),
            ],
            30,
        ):
            query(
                url,
                f"INSERT INTO sites VALUES ({FIRST + n}, 'shop.example', jsonb_build_object("
                f"'provision', jsonb_build_object('started_at', {started}, '{key}', {value})))",
            )
        sweep = Sweeping(PROVISION_DATABASE_URL=url, PREFECT_API_URL=prefect_api)
        ended = sweep.end(within=120)
    assert ended.name == "Reaped", ended.message
    assert "25 reaped" in ended.message
    assert "with an unreadable start: 2, on hold: 1" in ended.message
    assert ended.peak_mib < 200
