"""A refusal is evaluated once, and asked again when somebody presses Retry. F10 and F11."""

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_RESULTS_PERSIST_BY_DEFAULT, temporary_settings
from prefect.states import AwaitingRetry

from tests.flow.conftest import Sweep
from tests.flow.traces import flow_run, logs_of, run_again, run_id, task_runs
from tests.sites import YOUNG, Sites, stamp

pytestmark = pytest.mark.heart


@pytest.mark.guarantee(
    fault="retries configured on the tasks (F11)",
    holds="a refusal is evaluated once",
    guard="with two retries of the step or of the flow it is evaluated three times",
)
async def test_a_refusal_is_evaluated_once(sweep: Sweep, sites: Sites, prefect_api: str) -> None:
    await sites.add_many(26)
    state = await sweep()
    (checked,) = await task_runs(state, "check_cap", 1)
    assert checked.run_count == 1
    assert (await flow_run(state)).run_count == 1
    logs = await logs_of(state, prefect_api, "nothing was changed")
    assert logs.count("nothing was changed. The oldest") <= 2  # once logged, once as the state


@pytest.mark.guarantee(
    fault="Retry of a refused run, with persisted results (F10)",
    holds="the query runs again",
    guard=(
        "no-cache tasks: with Prefect's defaults, the retry asks again all the same, as "
        "Prefect can't hash an engine; with tasks cached by run it is refused again, from "
        "the list of the first try"
    ),
)
async def test_retry_asks_the_database_again_even_where_results_are_persisted(
    sweep: Sweep, sites: Sites
) -> None:
    with temporary_settings({PREFECT_RESULTS_PERSIST_BY_DEFAULT: True}):
        await sites.add_many(26)
        refused = await sweep()
        assert refused.name == "Refused"
        await sites.merge(7, {"health_check": {"completed_at": stamp(YOUNG)}})
        async with get_client() as client:
            await client.set_flow_run_state(run_id(refused), AwaitingRetry(), force=True)
            again = await client.read_flow_run(run_id(refused))
        state = await run_again(again)
    assert (run_id(state), state.name) == (run_id(refused), "Reaped")
    assert await sites.ledger() == [site_id for site_id in range(1, 27) if site_id != 7]
