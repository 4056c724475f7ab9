"""Databases for the benchmarks: migrated, filled, vacuumed."""

from urllib.parse import urlsplit

import psycopg

from deployments.postgres import LocalPostgres
from tests.conftest import adopt

SITES = """
INSERT INTO sites
SELECT i, 'shop-' || i || '.example',
    jsonb_build_object('plan', 'business', 'owner', jsonb_build_object('id', i, 'country', 'PT'))
    || CASE
      WHEN i % {every} <> 0 THEN jsonb_build_object(
        'provision', jsonb_build_object('started_at', '2026-01-15T14:00:00Z', 'step', 'done'),
        'health_check', jsonb_build_object('completed_at', '2026-01-15T14:05:00Z'))
      ELSE jsonb_build_object('provision', jsonb_build_object('step', 'dns', 'started_at',
        CASE WHEN i / {every} <= 10
             THEN to_char(now() AT TIME ZONE 'UTC' - interval '2 hours', {iso})
             WHEN i / {every} <= 13 THEN 'yesterday'
             ELSE to_char(now() AT TIME ZONE 'UTC' - interval '2 minutes', {iso}) END))
    END
  FROM generate_series({first}, {last}) AS i
"""
"""Live sites, and evenly among them 50 in flight: 10 stuck, 3 unreadable, 37 young."""

STUCK = """
INSERT INTO sites SELECT i, 'stuck-' || i || '.example',
    jsonb_build_object('provision', jsonb_build_object('step', 'dns', 'webhook', %s::text,
        'started_at', to_char(now() AT TIME ZONE 'UTC' - interval '2 hours', {iso})))
  FROM generate_series(%s::bigint, %s::bigint) AS i
RETURNING metadata #>> '{{provision,started_at}}'
"""

ISO = """'YYYY-MM-DD"T"HH24:MI:SS"Z"'"""
IN_FLIGHT = 50
BATCH = 500_000


def filled(postgres: LocalPostgres, name: str, sites: int) -> str:
    """The URL of a new database of that many sites."""
    postgres.ensure_database(name)
    url = postgres.url(name)
    adopt(url)
    fill(url, sites)
    return url


def fill(url: str, sites: int) -> None:
    """That many sites in the empty table of them."""
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(1, sites + 1, BATCH):
            last = min(first + BATCH - 1, sites)
            connection.execute(
                SITES.format(first=first, last=last, every=max(sites // IN_FLIGHT, 1), iso=ISO)
            )
        connection.execute("VACUUM (ANALYZE) sites")
        connection.execute("CHECKPOINT")


def add_stuck(url: str, first: int, number: int, webhook: str | None = None) -> str:
    """That many stuck sites more, all with the same start stamp, which is given back."""
    with psycopg.connect(url, autocommit=True) as connection:
        added = connection.execute(STUCK.format(iso=ISO), [webhook, first, first + number - 1])
        row = added.fetchone()
        assert row
        return str(row[0])


def drop(postgres: LocalPostgres, url: str) -> None:
    """Make room for the next one."""
    name = urlsplit(url).path.lstrip("/")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
