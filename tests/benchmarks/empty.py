"""The least that a flow can be, to measure Prefect's own cost against."""

from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.logging import get_run_logger


@task(cache_policy=NO_CACHE, persist_result=False)
async def nothing() -> None:
    """A task run, and no more than that."""


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="nothing for {site}")
async def nothing_for(site: int) -> None:
    """A task run with a name."""


@flow(persist_result=False)
async def empty_flow(task_runs: int = 3) -> None:
    """A flow run with that many task runs, and no more than that."""
    for _ in range(task_runs):
        await nothing()


@flow(persist_result=False, flow_run_name=lambda: "a name of its own")
async def traced_flow(task_runs: int = 3, sites: int = 0) -> None:
    """What an operator sees of a sweep, and no sweep: names, lines, events and a report."""
    log = get_run_logger()
    for _ in range(task_runs - 2 * sites):
        await nothing()
    log.info("Found no site, although there is a line that says so")
    for site in range(sites):
        await nothing_for(site)
        await nothing_for(site)
        log.info("site %s: nothing was done, which takes a line as well", site)
        emit_event("provision.nothing", {"prefect.resource.id": f"provision.nothing.{site}"})
    await acreate_markdown_artifact("| a | report |\n|---|---|\n" * (sites + 1), key="nothing")
