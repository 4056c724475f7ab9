"""`make run`: the whole program on this machine, with sample sites, until Ctrl-C.

    make run
    make run OPTIONS="--use-prefect-server --reap"

Starts PostgreSQL, migrates, starts the Prefect server, deploys prefect.yaml, starts a worker,
fills an empty database with sample sites, runs a first sweep and shows what it did; then sweeps
every five minutes. Ctrl-C stops everything that was started; the data stays for the next time.

With PROVISION_DATABASE_URL it sweeps that database instead: it rehearses first, shows what a sweep
would do, and reaps only after you said yes.

Options:
  --use-prefect-server    use the Prefect server of PREFECT_API_URL, and start none; needs
                          PROVISION_DATABASE_URL
  --reap                  sweep the database of PROVISION_DATABASE_URL without asking first

Environment:
  PROVISION_UI_PORT       the port of the Prefect UI and API on 127.0.0.1 (4200)
  PROVISION_DATA_DIR      the folder that keeps data and logs (.data in the project; for root
                          a folder of the project's own under /var/lib/provision-reaper)
  PROVISION_DATABASE_URL  sweep this database: it is migrated, and gets no samples
  PREFECT_API_URL         ignored, but for --use-prefect-server
  PROVISION_ALERT_BLOCK   the block that alerts go to (see python -m deployments.automations)
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from deployments.data_folder import claimed
from deployments.errors import StackError
from deployments.options import read_arguments, read_options, stack_environment


def main() -> int:
    """Runs the stack; the exit code is 1 where something has to be put right first."""
    arguments = read_arguments("deployments.local", __doc__, "--use-prefect-server", "--reap")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        options = read_options(os.environ, arguments)
        environment = stack_environment(options, os.environ)
        os.environ.clear()
        os.environ.update(environment)
        with claimed(options.data):
            from deployments.stack import run_stack  # noqa: PLC0415 - Prefect reads os.environ now

            run_stack(options)
    except StackError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the data stays for the next start.", flush=True)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Leaves once, in order: further signals must not cut the leaving short."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # the terminal may be gone
        print("\nStopping ...", flush=True)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
