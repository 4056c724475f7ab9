"""What every step shares: it asks again each time, and only a passing fault is tried again.

A step that is cached, or whose result is persisted, comes back with yesterday's answer when an
operator presses Retry: the sweep would act on a list that it never looked up.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from provisioning.errors import DatabaseError, Explained

RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try; together longer than a PostgreSQL restart takes."""


async def failed_in_passing(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether the run failed on a lost connection, a restart or a serialization failure.

    A refusal, a database that is not ready and a programming error stay as they are: trying again
    would only say the same thing later.
    """
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, DatabaseError) and error.transient


class WithoutItsTraceback(logging.Filter):
    """Keeps the traceback of an error that explains itself off the page of a run."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        if record.exc_info and isinstance(record.exc_info[1], Explained):
            record.exc_info = None
        return True


logging.getLogger("prefect.task_runs").addFilter(WithoutItsTraceback())

P = ParamSpec("P")
R = TypeVar("R")
Coroutines = Callable[P, Coroutine[Any, Any, R]]


def step(name: str, run_name: str) -> Callable[[Coroutines[P, R]], Task[P, Coroutine[Any, Any, R]]]:
    """A task that runs once."""
    return task(
        name=name, task_run_name=run_name, cache_policy=NO_CACHE, persist_result=False, retries=0
    )


def database_task(
    name: str, run_name: str
) -> Callable[[Coroutines[P, R]], Task[P, Coroutine[Any, Any, R]]]:
    """A task that talks to the database, and is tried again when that failed in passing."""
    return task(
        name=name,
        task_run_name=run_name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=len(RETRY_DELAYS),
        retry_delay_seconds=list(RETRY_DELAYS),
        retry_jitter_factor=0.5,
        retry_condition_fn=failed_in_passing,
    )
