"""The sweep as a periodic task of procrastinate."""

import os

from procrastinate import App, PsycopgConnector

from tests.benchmarks.peers.programs.one_sweep import sweep

app = App(connector=PsycopgConnector(conninfo=os.environ["QUEUE_URL"]))


@app.periodic(cron=os.environ["SCHEDULE"])
@app.task(queueing_lock="reap")
def reap(timestamp: int) -> int:
    """One sweep."""
    return sweep(os.environ["SITES_URL"])
