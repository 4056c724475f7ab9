"""Addresses of pages of the Prefect UI, for reports."""

import json
from urllib.parse import quote
from uuid import UUID

from prefect.runtime import deployment
from prefect.utilities.urls import url_for


def run_page(flow_run_id: UUID) -> str | None:
    """The page of a run; None where the address of the UI is not known."""
    return _current_ui(url_for("flow-run", obj_id=flow_run_id))


def approval_form(flow_run_id: UUID) -> str | None:
    """The deployment's form with the approval of a refused run filled in.

    None for a run without a deployment, and where the address of the UI is not known.
    """
    page = deployment.id and _current_ui(url_for("deployment", obj_id=deployment.id))
    chosen = quote(json.dumps({"approve_refusal": str(flow_run_id)}))
    return f"{page}/run?parameters={chosen}" if page else None


def _current_ui(url: str | None) -> str | None:
    """Prefect's own links lead to the older of its two UIs."""
    return url and url.replace("/runs/", "/v2/runs/").replace("/deployments/", "/v2/deployments/")
