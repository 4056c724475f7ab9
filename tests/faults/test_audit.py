"""What is locked has no known vulnerability, and is what its hashes say."""

import os
import re
import subprocess
import sys

import pytest

from tests.commands import ROOT

NOBODY_TO_ASK = 77


@pytest.mark.e2e
@pytest.mark.timeout(720)
@pytest.mark.guarantee(
    fault="a known vulnerability in what is locked",
    holds="found by pip-audit, where its service can be reached",
)
def test_nothing_that_is_locked_has_a_known_vulnerability() -> None:
    done = subprocess.run(
        ["sh", "tests/faults/audit.sh"],
        cwd=ROOT,
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=700,
        check=False,
    )
    if done.returncode == NOBODY_TO_ASK:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.guarantee(
    fault="a package that changed on its way",
    holds="every requirement is pinned by version and hash",
)
def test_everything_is_pinned_to_a_version_and_to_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    requirements = re.split(r"\n(?=[a-z])", re.sub(r"^ *#.*\n", "", lock, flags=re.M).strip())
    assert len(requirements) > 50
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9, -]+\])?==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement
