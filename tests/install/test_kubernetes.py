"""The base job template of docs/kubernetes.md: settings from a Secret, the deployment's image."""

import json
from typing import Any

import yaml
from prefect.utilities.templating import apply_values, find_placeholders

from tests.commands import ROOT

TEMPLATE: dict[str, Any] = json.loads((ROOT / "deployments/kubernetes.json").read_text())


def container(**variables: Any) -> dict[str, Any]:
    said = TEMPLATE["variables"]["properties"]
    defaults = {name: of["default"] for name, of in said.items() if "default" in of}
    rendered = apply_values(TEMPLATE["job_configuration"], defaults | variables)
    (only,) = rendered["job_manifest"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_a_run_gets_its_settings_from_a_secret_and_its_image_from_the_deployment() -> None:
    image = "registry.example/provision-reaper:0.1.0"
    deployment = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"][0]
    asked = deployment["work_pool"]["job_variables"] | {"image": image}
    assert set(asked) <= set(TEMPLATE["variables"]["properties"])
    made = container(**asked)
    assert made["envFrom"] == [{"secretRef": {"name": "provision-reaper"}}]
    assert made["image"] == image
    assert made["env"] == asked["env"]


def test_every_variable_is_used_and_every_place_has_a_variable() -> None:
    places = {place.name for place in find_placeholders(TEMPLATE["job_configuration"])}
    assert places == set(TEMPLATE["variables"]["properties"])
