"""Pages of the Prefect UI that reports and messages lead to. Prefect's own links lead to its older
UI.
"""

import json
from urllib.parse import quote
from uuid import UUID

from prefect.settings import PREFECT_UI_URL


def run_page(flow_run_id: UUID) -> str:
    """The path of a run's page."""
    return f"/v2/runs/flow-run/{flow_run_id}"


def approval_form(deployment_id: UUID, flow_run_id: UUID) -> str:
    """The path of the form of a custom run, filled in so that Submit approves a refused run."""
    chosen = quote(json.dumps({"approve_refusal": str(flow_run_id)}))
    return f"/v2/deployments/deployment/{deployment_id}/run?parameters={chosen}"


def on_the_ui(path: str) -> str:
    """The whole address, where the address of the UI is known to this process; else the path."""
    return f"{(PREFECT_UI_URL.value() or '').rstrip('/')}{path}"
