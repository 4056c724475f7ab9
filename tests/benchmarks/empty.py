"""The least that a flow can be, to measure Prefect's own cost against."""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE, persist_result=False)
async def nothing() -> None:
    """A task run, and no more than that."""


@flow(persist_result=False)
async def empty_flow(task_runs: int = 3) -> None:
    """A flow run with that many task runs, and no more than that."""
    for _ in range(task_runs):
        await nothing()
