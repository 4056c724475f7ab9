"""The sweep as a Dagster job of one step, in the process of its run, on a schedule."""

import os

from dagster import (
    DefaultScheduleStatus,
    Definitions,
    OpExecutionContext,
    ScheduleDefinition,
    in_process_executor,
    job,
    op,
)

from tests.benchmarks.peers.programs.one_sweep import sweep


@op
def reap(context: OpExecutionContext) -> None:
    """One sweep."""
    context.log.info("%s sites failed", sweep(os.environ["SITES_URL"]))


@job(executor_def=in_process_executor)
def reap_stuck_provisions() -> None:
    """The job that the schedule starts."""
    reap()


definitions = Definitions(
    jobs=[reap_stuck_provisions],
    schedules=[
        ScheduleDefinition(
            job=reap_stuck_provisions,
            cron_schedule=os.environ["SCHEDULE"],
            default_status=DefaultScheduleStatus.RUNNING,
        )
    ],
)
