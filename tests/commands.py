"""`python -m` for tests that need many, forked from a process that has the imports of all of them.

The program reads the platform's names when it is imported, so each command needs a process of its
own. From nothing, four fifths of its time would go into imports.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 120

_forked = multiprocessing.get_context("forkserver")
_forked.set_forkserver_preload(
    [
        "alembic.command",
        "alembic.config",
        "alembic.ddl.postgresql",
        "anyio",
        "pydantic_settings",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.ext.asyncio",
    ]
)


def python_m(
    module: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """`python -m module` in the project's folder, with these variables beside this process's own.

    Raises:
        TimeoutError: it was still running after two minutes, and was killed.
    """
    command, variables = (module, *arguments), dict(os.environ) | environment
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        process = _forked.Process(target=_run, args=(command, variables, out, errors))
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"{' '.join(command)} ran for more than {SECONDS} s")
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            command, process.exitcode, out.read_text(), errors.read_text()
        )


def alembic(url: str, *arguments: str, **names: str) -> "subprocess.CompletedProcess[str]":
    """`alembic`, on that database and with these names of the platform's."""
    return python_m("alembic", *arguments, PROVISION_DATABASE_URL=url, **names)


def migrate(url: str, **names: str) -> None:
    """`alembic upgrade head`, which must succeed."""
    done = alembic(url, "upgrade", "head", **names)
    assert done.returncode == 0, done.stderr


def _run(command: tuple[str, ...], variables: dict[str, str], out: Path, errors: Path) -> None:
    for path, descriptor in ((out, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(ROOT)
    sys.argv = list(command)
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
