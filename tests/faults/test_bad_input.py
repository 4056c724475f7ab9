"""Whatever stands in the metadata, the healthy stuck sites are reaped and no sweep falls."""

from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import StateType
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.snapshot import look
from tests.faults.shapes import REFUSED_BY_JSONB, SHAPES, Fate, Shape
from tests.flow.conftest import Sweep
from tests.flow.traces import message, report_of
from tests.sites import Sites, number, stamp

HEALTHY = range(1_000, 1_005)
YOUNG = 2_000
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
STYLES = ["ISO, MDY", "SQL, DMY"]


def numbered(*fates: Fate) -> list[int]:
    return [site_id for site_id, shape in enumerate(SHAPES) if shape.fate in fates]


@pytest.fixture(params=[(zone, style) for zone in ZONES for style in STYLES], ids=str)
async def server_set_to(
    request: pytest.FixtureRequest, sites: Sites, engine: AsyncEngine
) -> tuple[str, str]:
    """The settings of the platform's database, which are not ours to choose."""
    zone, style = request.param
    await sites.run(f"ALTER DATABASE {await sites.database()} SET timezone = '{zone}'")
    await sites.run(f"ALTER DATABASE {await sites.database()} SET datestyle = '{style}'")
    await engine.dispose()
    return zone, style


async def add(sites: Sites, site_id: int, shape: Shape) -> None:
    await sites.run(
        "INSERT INTO sites VALUES (:id, :domain, CAST(:metadata AS jsonb))",
        id=sites.id(site_id),
        domain=shape.domain,
        metadata=shape.metadata,
    )


async def add_all(sites: Sites) -> None:
    for site_id, shape in enumerate(SHAPES):
        await add(sites, site_id, shape)
    for site_id in HEALTHY:
        await sites.add_started(site_id)
    await sites.add_started(YOUNG, stamp(timedelta(minutes=1)))


def test_there_are_enough_shapes_of_each_kind_and_all_unreadable_ones_fit_a_list() -> None:
    kinds = Counter(shape.fate for shape in SHAPES)
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) > 120
    assert min(kinds.values()) >= 15
    assert kinds[Fate.LISTED] <= 100


@pytest.mark.guarantee(
    fault=(
        "130 shapes of stamps, metadata and domains, under four time zones and two "
        "DateStyles of the server"
    ),
    holds="the healthy are reaped, none of the others is, all unreadable ones are listed",
)
async def test_the_healthy_are_reaped_and_the_unreadable_are_listed(
    server_set_to: tuple[str, str], sites: Sites, engine: AsyncEngine
) -> None:
    await add_all(sites)
    seen = await look(engine, timedelta(minutes=30), 1_000, writes=True)
    stuck = [*numbered(Fate.REAPED), *HEALTHY]
    found = [number(site.site_id) for site in seen.stuck]
    assert [SHAPES[n].name for n in found if n not in stuck] == []
    assert sorted(found) == stuck
    assert [number(site.site_id) for site in seen.unreadable] == numbered(Fate.LISTED)
    assert seen.unreadable_total == len(seen.unreadable)
    assert seen.in_flight == len(stuck) + seen.unreadable_total + 1
    for site in seen.stuck:
        outcome = await fail_terminally(
            engine,
            site.site_id,
            site.attempt,
            reason="watchdog: late",
            source=Source.WATCHDOG,
            flow_run_id=uuid4(),
            started_before=seen.cutoff,
            teardown=True,
        )
        assert outcome is Outcome.REAPED, SHAPES[number(site.site_id)].name
    assert await sites.ledger() == stuck


@pytest.mark.guarantee(
    fault="the same, through a whole sweep",
    holds="it ends Reaped, and no markup, escape or override reaches its report",
)
async def test_a_whole_sweep_over_all_shapes_ends_reaped_and_shows_them(
    sweep: Sweep, sites: Sites, engine: AsyncEngine, prefect_api: str
) -> None:
    await sites.run(f"ALTER DATABASE {await sites.database()} SET timezone = 'Asia/Kathmandu'")
    await sites.run(f"ALTER DATABASE {await sites.database()} SET datestyle = 'SQL, DMY'")
    await engine.dispose()
    await add_all(sites)
    for n in range(100):  # young ones, so that the unreadable are not most of what is in flight
        await sites.add_started(5_000 + n, stamp(timedelta(minutes=1)))
    state = await sweep(max_reap_per_run=100)
    assert (state.name, state.type) == ("Reaped", StateType.COMPLETED), message(state)
    assert await sites.ledger() == [*numbered(Fate.REAPED), *HEALTHY]
    report = await report_of(state, prefect_api)
    for site_id in numbered(Fate.LISTED):
        assert f"\n| {sites.id(site_id)} |" in report, SHAPES[site_id].name
    assert r"\<script\>" in report
    assert "\x1b" not in report
    assert "\u202e" not in report
    assert len(report.encode()) < 200_000
    assert (await sweep()).name == "Clean"


@pytest.mark.parametrize("document", REFUSED_BY_JSONB.values(), ids=list(REFUSED_BY_JSONB))
@pytest.mark.guarantee(
    fault="null bytes, half surrogates and broken JSON",
    holds="the column's type refuses them, so no sweep meets them",
)
async def test_what_jsonb_cannot_hold_is_refused_when_it_is_written(
    sites: Sites, document: str
) -> None:
    """So no sweep ever meets it: the type of the column is the guard."""
    with pytest.raises(DBAPIError):
        await add(sites, 1, Shape("x", document, Fate.INVISIBLE))
    assert await sites.rows("TABLE sites") == []
