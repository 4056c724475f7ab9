"""The local stack, stage by stage, and what it shows while it runs.

Everything started here is stopped again, in reverse order, when `run_stack` is left: the
ExitStack holds it, and the caller turns signals into KeyboardInterrupt.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx
import psycopg
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from psycopg.conninfo import conninfo_to_dict

from deployments import automations, sweeps, trial_upstream
from deployments.errors import StackError
from deployments.options import PROJECT, Options
from deployments.postgres import LocalPostgres, local_postgres
from deployments.processes import Service, end_leftovers, run_command, service
from deployments.running import NOTE, announced
from deployments.samples import add_samples, create_table, to_try
from deployments.telling import reaps_after_a_yes, tell_end, tell_first, tell_later
from deployments.terminal import say, stage


def run_stack(options: Options) -> None:
    """Starts the stack, runs the first sweep, and tells of later ones until it is interrupted."""
    with ExitStack() as running:
        stack = _Stack(options, running)
        client = running.enter_context(get_client(sync_client=True))
        try:
            stack.check_surroundings(client)
            stack.start_postgres()
            stack.migrate()
            stack.start_server(client)
            stack.deploy(client)
            stack.apply_automations(client)
            stack.add_samples()
            stack.start_trial_upstream()
            stack.start_worker()
            first = stack.first_sweep(client)
            tell_first(client, first, options.data)
            stack.tell_of_the_trial()
            sweeping = not stack.rehearses or reaps_after_a_yes(client)
            tell_end(options, sweeping=sweeping)
        except httpx.HTTPError as error:
            raise StackError(f"The Prefect server {client.api_url} refused: {error}") from error
        tell_later(client, first, stack.check)


@dataclass
class _Stack:
    options: Options
    running: ExitStack
    services: list[Service] = field(default_factory=list)
    postgres: LocalPostgres | None = None
    database_url: str = ""
    upstream: dict[str, str] = field(default_factory=dict)
    """What the worker needs to provision through the trial upstream."""

    @property
    def rehearses(self) -> bool:
        """Whether a person must say yes before anything is reaped: the database is theirs."""
        return self.options.database_url is not None and not self.options.reap

    def check(self) -> None:
        """Raises when a part of the stack ended although nobody asked it to."""
        if self.postgres:
            self.postgres.check()
        for started in self.services:
            started.check()

    def check_surroundings(self, client: SyncPrefectClient) -> None:
        if self.options.ignored_api_url:
            say(
                "PREFECT_API_URL is set and not used: this starts a Prefect server of its own.\n"
                'To use yours: make run OPTIONS="--use-prefect-server"'
            )
        with stage("Checking what is needed"):
            self.options.logs.mkdir(mode=0o700, exist_ok=True)
            (self.options.data / NOTE).unlink(missing_ok=True)  # of a stack that was killed
            end_leftovers(self.options.logs)
            self.running.callback(end_leftovers, self.options.logs)
            if self.options.database_url:
                _check_database(self.options.database_url)
            if self.options.api_url:
                sweeps.wait_for_server(client, self.check, seconds=10)
            else:
                _check_port(self.options.ui_port)

    def start_postgres(self) -> None:
        if self.options.database_url and self.options.api_url:
            return
        with stage("Starting PostgreSQL"):
            server = local_postgres(self.options.data / "postgres")
            self.postgres = self.running.enter_context(server)

    def migrate(self) -> None:
        own = self.options.database_url
        with stage(f"Migrating {_describe(own)}" if own else "Migrating the sample database"):
            if own:
                self.database_url = own
            elif self.postgres:
                self.postgres.ensure_database("provision")
                self.database_url = self.postgres.url("provision")
                create_table(self.database_url)
            # No time limit: an index on a large table takes what it takes.
            self._run_to_end("migrate", "alembic", "upgrade", "head", timeout=None)

    def start_server(self, client: SyncPrefectClient) -> None:
        if self.options.api_url or not self.postgres:
            return
        with stage("Starting the Prefect server"):
            self.postgres.ensure_database("prefect")
            database = self.postgres.url("prefect", scheme="postgresql+asyncpg")
            self._start(
                "Prefect server",
                *("prefect", "server", "start", "--host", "127.0.0.1"),
                *("--port", str(self.options.ui_port)),
                environment={"PREFECT_SERVER_DATABASE_CONNECTION_URL": database},
            )
            sweeps.wait_for_server(client, self.check, seconds=120)

    def deploy(self, client: SyncPrefectClient) -> None:
        with stage("Deploying prefect.yaml"):
            sweeps.ensure_work_pool(client)
            self._run_to_end("deploy", "prefect", "--no-prompt", "deploy", "--all", timeout=120)
            if self.rehearses:
                sweeps.set_schedule(client, active=False)
            elif self.options.reap and self.options.api_url is None:
                sweeps.set_schedule(client, active=True)  # an earlier rehearsal paused it
            if self.options.api_url is None:
                sweeps.settle_past_sweeps(client)

    def apply_automations(self, client: SyncPrefectClient) -> None:
        with stage("Applying the automations"):
            block = os.environ.get(automations.BLOCK_VARIABLE)
            automations.apply(client, automations.load(), block)

    def add_samples(self) -> None:
        if self.options.database_url is None:
            with stage("Adding sample sites where there are none"):
                add_samples(self.database_url)

    def start_trial_upstream(self) -> None:
        """Never for a database of the caller's: what is asked for there is meant."""
        if self.options.database_url or os.environ.get("PROVISION_UPSTREAM_URL"):
            return
        port = trial_upstream.free_port()
        self._start(
            "trial upstream",
            *("deployments.trial_upstream", "--port", str(port)),
            environment={},
        )
        self.upstream = trial_upstream.environment(port)

    def start_worker(self) -> None:
        self._start(
            "worker",
            *("prefect", "worker", "start", "--pool", sweeps.WORK_POOL, "--type", "process"),
            *("--name", f"make run on {socket.gethostname()}"),
            environment={"PROVISION_DATABASE_URL": self.database_url} | self.upstream,
        )
        self.running.enter_context(announced(self.options, self.database_url))

    def first_sweep(self, client: SyncPrefectClient) -> FlowRun:
        what = "Rehearsing a sweep" if self.rehearses else "Running the first sweep"
        with stage(f"{what} on a worker"):
            return sweeps.run_sweep(client, self.check, dry_run=self.rehearses)

    def tell_of_the_trial(self) -> None:
        ids = to_try(self.database_url) if self.upstream else []
        if ids:
            say(
                "Try the chain:   Custom run of provision-site/on-demand with site_id "
                f"{ids[0]} (goes live) or {ids[-1]} (fails), through an upstream that is a trial"
            )

    def _start(self, name: str, *module: str, environment: Mapping[str, str]) -> None:
        started = service(
            name,
            (sys.executable, "-m", *module),
            log=self.options.logs / f"{name.lower().replace(' ', '-')}.log",
            environment=os.environ | environment,
        )
        self.services.append(self.running.enter_context(started))

    def _run_to_end(self, name: str, module: str, *arguments: str, timeout: float | None) -> None:
        run_command(
            (sys.executable, "-m", module, *arguments),
            folder=PROJECT,
            log=self.options.logs / f"{name}.log",
            environment=os.environ | {"PROVISION_DATABASE_URL": self.database_url},
            timeout=timeout,
        )


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise StackError(
                f"Port {port} is not to be had ({error.strerror}). Stop what listens there, or "
                "set PROVISION_UI_PORT to a free port."
            ) from error


def _check_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.Error as error:
        raise StackError(
            f"No connection to the database {_describe(url)} of PROVISION_DATABASE_URL: {error}"
        ) from error


def _describe(url: str) -> str:
    """Names the database without the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise StackError(
            "PROVISION_DATABASE_URL is no PostgreSQL URL (postgresql://user:password@host/name)."
        ) from error
    return f"{parts.get('dbname', '')} on {parts.get('host', 'localhost')}"
