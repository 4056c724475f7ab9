"""Every task of the program asks again each time it runs: traps 4 and 5 of Prefect."""

import importlib
import pkgutil
from typing import Any

import pytest
from prefect import Flow, Task
from prefect.cache_policies import NO_CACHE

import flows
import tasks


def _found(package: Any, kind: type) -> list[Any]:
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return [
        value for module in modules for value in vars(module).values() if isinstance(value, kind)
    ]


TASKS: list[Task[..., Any]] = _found(tasks, Task)


def test_there_are_tasks_to_check() -> None:
    assert {"query_stuck_sites", "check_cap", "refresh_site", "fail_site_terminally"} <= {
        task.name for task in TASKS
    }


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_no_task_answers_from_yesterday(task: Task[..., Any]) -> None:
    assert task.cache_policy is NO_CACHE
    assert task.persist_result is False


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_no_task_is_retried_without_a_condition(task: Task[..., Any]) -> None:
    assert task.retries == 0 or task.retry_condition_fn is not None


def test_no_flow_is_retried() -> None:
    assert [flow.retries for flow in _found(flows, Flow)] == [0] * len(_found(flows, Flow))
