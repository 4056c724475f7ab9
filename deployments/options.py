"""What the environment says about the local stack, and the environment that its programs get."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployments.data_folder import default_data_folder
from deployments.errors import StackError

PROJECT = Path(__file__).resolve().parents[1]


def read_arguments(module: str, description: str | None, *known: str) -> list[str]:
    """The switches that were given. Answers `--help` and refuses what is not known."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        usage=f"python -m {module}" + "".join(f" [{switch}]" for switch in known),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(given=[])
    for switch in known:
        parser.add_argument(switch, action="append_const", const=switch, dest="given", help="")
    return list(parser.parse_args().given)


@dataclass(frozen=True)
class Options:
    """Where the stack keeps its data, and which parts of it the caller brings along."""

    data: Path
    ui_port: int
    database_url: str | None
    """The database to sweep; None for the stack's own."""
    api_url: str | None
    """The Prefect server to use; None for the stack's own."""
    ignored_api_url: bool = False
    """Whether the environment names a server that nobody asked to use."""
    reap: bool = False
    """Whether the caller's own database may be swept without asking first."""

    @property
    def logs(self) -> Path:
        """One file for each program that the stack runs, of the last start."""
        return self.data / "logs"


def read_options(environ: Mapping[str, str], arguments: Sequence[str] = ()) -> Options:
    """The options, checked as far as that goes without looking at the machine.

    A Prefect server of the caller's is joined only by an option that says so, and never with
    sample sites: its other workers and its people would take them for real ones.
    """
    use_server, reap = "--use-prefect-server" in arguments, "--reap" in arguments
    api_url = environ.get("PREFECT_API_URL") or None
    database_url = environ.get("PROVISION_DATABASE_URL") or None
    if use_server and not (api_url and database_url):
        missing = "PREFECT_API_URL" if database_url else "PROVISION_DATABASE_URL"
        raise StackError(
            f"--use-prefect-server needs {missing} in the environment: on a server that others use "
            "there are no sample sites."
        )
    if reap and not database_url:
        raise StackError("--reap is for a database of your own: set PROVISION_DATABASE_URL.")
    port = environ.get("PROVISION_UI_PORT") or "4200"
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise StackError(f"PROVISION_UI_PORT is a port, 1 to 65535, and not {port!r}.")
    data = environ.get("PROVISION_DATA_DIR")
    return Options(
        data=Path(data).expanduser().resolve() if data else default_data_folder(PROJECT),
        ui_port=int(port),
        database_url=database_url,
        api_url=api_url if use_server else None,
        ignored_api_url=api_url is not None and not use_server,
        reap=reap,
    )


def stack_environment(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, with a Prefect home of its own.

    With a server of its own the stack hears none of the caller's PREFECT_* variables, which may
    speak of another server; with the caller's server it needs them, for instance an API key.
    """
    environment = {
        name: value
        for name, value in environ.items()
        if options.api_url or not name.startswith("PREFECT_")
    }
    environment |= {
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "PREFECT_HOME": str(options.data / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PYTHONUNBUFFERED": "1",
    }
    if options.api_url is None:
        unproxied = [environ.get("NO_PROXY", ""), "127.0.0.1"]
        environment |= {
            "NO_PROXY": ",".join(filter(None, unproxied)),
            "PREFECT_API_URL": f"http://127.0.0.1:{options.ui_port}/api",
        }
    return environment
