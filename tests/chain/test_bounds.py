"""The chain gives up before the sweep's threshold: held by the deployments themselves."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.provision_site import provision_site
from flows.reap_stuck_provisions import reap_stuck_provisions

FILE = Path(__file__).parents[2] / "prefect.yaml"


def parameter(document: Any, flow: Any, name: str) -> int:
    """What the deployment of a flow says of a parameter, or else the flow's own default."""
    entrypoint = f"{flow.fn.__module__}.{flow.fn.__name__}"
    (deployment,) = (d for d in document["deployments"] if d["entrypoint"] == entrypoint)
    default = inspect.signature(flow.fn).parameters[name].default
    return int(deployment.get("parameters", {}).get(name, default))


def complaint(document: Any) -> str | None:
    """What is wrong with the bounds of a prefect.yaml; None where nothing is."""
    bound = parameter(document, provision_site, "give_up_after_minutes")
    threshold = parameter(document, reap_stuck_provisions, "stuck_after_minutes")
    if bound < threshold:
        return None
    return f"the chain gives up after {bound} minutes, the sweep fails it after {threshold}"


@pytest.mark.guarantee(
    fault="the chain's bound above the sweep's threshold (F23)",
    holds="the test of prefect.yaml fails",
    guard="40 minutes in prefect.yaml: the complaint names both numbers",
)
def test_the_chain_gives_up_before_the_sweep() -> None:
    assert complaint(yaml.safe_load(FILE.read_text())) is None


@pytest.mark.parametrize(("bound", "threshold"), [(40, 30), (30, 30), (20, 15), (None, 20)])
def test_a_chain_that_the_sweep_would_overtake_is_noticed(
    bound: int | None, threshold: int
) -> None:
    document = yaml.safe_load(FILE.read_text())
    for deployment in document["deployments"]:
        if deployment["entrypoint"].endswith(".provision_site"):
            deployment["parameters"] = {"give_up_after_minutes": bound} if bound else {}
        else:
            deployment["parameters"]["stuck_after_minutes"] = threshold
    assert complaint(document) == (
        f"the chain gives up after {bound or 20} minutes, the sweep fails it after {threshold}"
    )
