"""A flow that shows what a sweep shows, to measure the sweep's own cost against."""

from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.logging import get_run_logger

from flows.ui.publish import name_run
from tests.benchmarks.empty import nothing


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="nothing for {site}")
async def nothing_for(site: int) -> None:
    """A task run with a name."""


@flow(persist_result=False)
async def traced_flow(task_runs: int = 3, sites: int = 0) -> None:
    """What an operator sees of a sweep, and no sweep: names, lines, events and a report."""
    await name_run("a name of its own")
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
