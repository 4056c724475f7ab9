"""`make outage`: 30 stuck sample sites in the running local stack, and a sweep that refuses.

    python -m deployments.outage

For trying out a refusal and its approval: the sites all stopped at one step, as they do when
something systemic breaks. Needs a local stack (`make run`) that runs in another terminal.

Environment:
  PROVISION_DATA_DIR      the data folder of that stack, where it was started with one
"""

from __future__ import annotations

import os
import sys

from deployments.errors import StackError
from deployments.options import read_arguments, read_options, stack_environment
from deployments.running import find_running
from deployments.samples import add_stuck
from deployments.terminal import say, stage, tell

SITES = 30
STEP = "dns"


def main() -> int:
    """Causes the outage and tells how to approve; 1 where the sweep did not refuse."""
    read_arguments("deployments.outage", __doc__)
    try:
        options, database_url = find_running(read_options(os.environ))
        environment = stack_environment(options, os.environ)
        os.environ.clear()
        os.environ.update(environment)
        with stage(f"Adding {SITES} sites stuck at step {STEP}"):
            add_stuck(database_url, SITES, STEP)
        _sweep_and_tell()
    except StackError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    return 0


def _sweep_and_tell() -> None:
    import httpx  # noqa: PLC0415 - as Prefect below
    from prefect.client.orchestration import get_client  # noqa: PLC0415 - reads os.environ now

    from deployments import sweeps  # noqa: PLC0415
    from flows.ui.links import approval_form, run_page  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        try:
            with stage("Running a sweep on the worker"):
                run = sweeps.run_sweep(client, lambda: None)
        except httpx.HTTPError as error:
            raise StackError(f"The Prefect server {client.api_url} refused: {error}") from error
        assert run.state
        assert run.deployment_id
        ui = sweeps.ui_url(client)
        tell(f"\nThe sweep ended {run.state.name}.\n{run.state.message}\n")
        if run.state.name != "Refused":
            raise StackError("It was expected to refuse. Is the deployment's cap raised?")
        say(f"Its page, with the evidence under Artifacts:\n  {ui}{run_page(run.id)}\n")
        say("To let exactly these sites through, once you have looked at them, in the UI:")
        say(f"  {ui}{approval_form(run.deployment_id, run.id)}")
        say(f"or from a shell:\n  PREFECT_API_URL={str(client.api_url).rstrip('/')} \\")
        say(f"  {sweeps.approval_command(run)}")


if __name__ == "__main__":
    sys.exit(main())
