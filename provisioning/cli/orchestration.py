"""What the doctor says of the Prefect server, which it asks over HTTP as anybody may."""

import os
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from provisioning.cli.checks import SILENCE, Check, ok, warning, wrong
from provisioning.http.urls import shown
from provisioning.sweep.preflight import CLOCK_TOLERANCE
from provisioning.text import duration, one_line

FLOW = "reap-stuck-provisions"
AUTOMATIONS = "provisioning: "
"""What the names of this program's automations begin with."""

SECONDS = 10.0


async def check_prefect() -> list[Check]:
    """The API, the deployments of the sweep, their schedules, pools and last ends, the alerts."""
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        return [
            warning(
                "Prefect",
                "PREFECT_API_URL is not set here, so no Prefect server was asked. Set it to have "
                "the schedule, the pool and the last sweep looked at as well.",
            )
        ]
    try:
        async with httpx.AsyncClient(
            base_url=api.rstrip("/"), timeout=SECONDS, auth=_basic(), headers=_bearer()
        ) as http:
            return await _ask(http)
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        hint = (
            "Set PREFECT_API_AUTH_STRING or PREFECT_API_KEY as the server wants it."
            if code in (401, 403)
            else "Check that PREFECT_API_URL ends in /api."
        )
        return [wrong("Prefect", f"{shown(api)} answered {code}. {hint}")]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return [
            wrong(
                "Prefect",
                f"The server at {shown(api)} did not answer ({type(error).__name__}): no sweep "
                "starts while it is away.",
            )
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        return [
            wrong(
                "Prefect",
                f"{shown(api)} does not answer like a Prefect server: check PREFECT_API_URL.",
            )
        ]


async def _ask(http: httpx.AsyncClient) -> list[Check]:
    answer = await http.get("/admin/version")
    answer.raise_for_status()
    found = [ok("Prefect", f"The server answers, version {one_line(str(answer.json()))}.")]
    found += _clock(answer.headers.get("date"))
    deployments = await _post(
        http, "/deployments/filter", {"flows": {"name": {"any_": [FLOW]}}, "limit": 50}
    )
    if not deployments:
        return [
            *found,
            wrong(
                "deployment",
                f"{FLOW} is not deployed there: run `prefect --no-prompt deploy --all`.",
            ),
        ]
    for deployment in deployments:
        found += await _deployment(http, deployment)
    return [*found, await _alerts(http)]


def _clock(date: str | None) -> list[Check]:
    """The server decides when a sweep is due, by its own clock."""
    try:
        ahead = parsedate_to_datetime(date or "") - datetime.now(UTC)
    except ValueError:
        return []
    if abs(ahead) <= CLOCK_TOLERANCE:
        return []
    return [
        warning(
            "Prefect",
            f"Its clock and this machine's differ by {duration(abs(ahead))}: set the wrong one "
            "right, or runs start early or late.",
        )
    ]


async def _deployment(http: httpx.AsyncClient, deployment: dict[str, Any]) -> list[Check]:
    name = f"{FLOW}/{one_line(deployment['name'])}"
    active = [schedule for schedule in deployment["schedules"] if schedule["active"]]
    if deployment["paused"] or not active:
        found = [wrong("schedule", f"{name} has no active schedule: nobody sweeps. Resume it.")]
    else:
        found = [ok("schedule", f"{name} is scheduled.")]
    found += await _pool(http, deployment)
    return [*found, last_end(name, await _last_run(http, deployment["id"]), datetime.now(UTC))]


async def _pool(http: httpx.AsyncClient, deployment: dict[str, Any]) -> list[Check]:
    """The work pool and the queue in it that the runs wait in, and who takes them."""
    pool = deployment["work_pool_name"]
    if not pool:
        return [
            wrong("pool", f"{FLOW} has no work pool: run `prefect --no-prompt deploy --all` again.")
        ]
    path, name = f"/work_pools/{quote(pool, safe='')}", one_line(pool)
    found = []
    if (await _get(http, path))["is_paused"]:
        found.append(wrong("pool", f"{name} is paused, so no run starts. Resume it."))
    queue = deployment["work_queue_name"]
    if queue and (await _get(http, f"{path}/queues/{quote(queue, safe='')}"))["is_paused"]:
        found.append(
            wrong("pool", f"The queue {one_line(queue)} of {name} is paused, so no run starts.")
        )
    workers = await _post(http, f"{path}/workers/filter", {})
    online = sum(worker["status"] == "ONLINE" for worker in workers)
    if not online:
        found.append(
            wrong(
                "pool",
                f"No worker of {name} is online: start one with `prefect worker start --pool "
                f"{name}`.",
            )
        )
    return found or [ok("pool", f"{name}, workers online: {online}.")]


async def _last_run(http: httpx.AsyncClient, deployment_id: str) -> dict[str, Any] | None:
    ended = {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}
    runs = await _post(
        http,
        "/flow_runs/filter",
        {
            "flow_runs": {"deployment_id": {"any_": [deployment_id]}, "state": ended},
            "sort": "END_TIME_DESC",
            "limit": 1,
        },
    )
    return runs[0] if runs else None


def last_end(name: str, run: dict[str, Any] | None, now: datetime) -> Check:
    """How long ago the newest run ended, and in which state."""
    if run is None or not run["end_time"]:
        return warning("last run", f"{name}: none has ended yet.")
    ago = now - datetime.fromisoformat(run["end_time"])
    ended = f"{name}: the last one ended {duration(ago)} ago, {one_line(run['state_name'])}"
    if ago > SILENCE:
        return wrong("last run", f"{ended}. Look at the schedule, the pool and the worker's log.")
    if run["state_type"] != "COMPLETED":
        return warning("last run", f"{ended}. Its page and its report say why.")
    return ok("last run", f"{ended}.")


async def _alerts(http: httpx.AsyncClient) -> Check:
    automations = await _post(http, "/automations/filter", {})
    names = [each for each in automations if each["name"].startswith(AUTOMATIONS)]
    off = [one_line(each["name"]) for each in names if not each["enabled"]]
    if not names:
        return warning(
            "alerts",
            "The automations are not there, so nobody is told when a sweep needs a person: run "
            "`python -m deployments.automations`.",
        )
    if off:
        return warning("alerts", f"Switched off: {', '.join(off)}.")
    return ok("alerts", f"{len(names)} automations are on.")


async def _get(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    answer.raise_for_status()
    return answer.json()


async def _post(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    answer = await http.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


def _basic() -> httpx.BasicAuth | None:
    user, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    return httpx.BasicAuth(user, password) if user else None


def _bearer() -> dict[str, str]:
    key = os.environ.get("PREFECT_API_KEY")
    return {"authorization": f"Bearer {key}"} if key else {}
