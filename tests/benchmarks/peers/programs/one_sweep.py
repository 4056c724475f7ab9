"""The original design's loop as a plain script, and the work that each peer does.

It does to the sites what our sweep does, with the same conditions on the same index, and no more:
no report, no notices, no refusal that later sweeps remember.
"""

import logging
import os

import psycopg

CAP = 25

STUCK = """
    (metadata #>> '{provision,started_at}') IS NOT NULL
    AND (metadata #>> '{terminal_failure}') IS NULL
    AND (metadata #>> '{health_check,completed_at}') IS NULL
    AND iso_instant(metadata #>> '{provision,started_at}') < now() - interval '30 minutes'
"""

LIST = f"""
SELECT id, metadata #>> '{{provision,started_at}}' FROM sites WHERE {STUCK}
 ORDER BY iso_instant(metadata #>> '{{provision,started_at}}'), id LIMIT {CAP + 1}
"""

LOOK_AGAIN = f"""
SELECT 1 FROM sites
 WHERE id = %(site)s AND metadata #>> '{{provision,started_at}}' = %(attempt)s AND {STUCK}
"""

FAIL = f"""
WITH mark AS (
    UPDATE sites SET metadata = metadata || jsonb_build_object('terminal_failure',
           jsonb_build_object('failed_at', now(), 'reason', %(reason)s::text,
                              'source', 'watchdog', 'started_at', %(attempt)s::text))
     WHERE id = %(site)s AND metadata #>> '{{provision,started_at}}' = %(attempt)s AND {STUCK}
    RETURNING id)
INSERT INTO terminal_failures (id, site_id, attempt, reason, source)
SELECT gen_random_uuid(), id::text, %(attempt)s, %(reason)s, 'watchdog' FROM mark
ON CONFLICT DO NOTHING
"""

REASON = "watchdog: exceeded the 30-minute threshold without completing"

log = logging.getLogger(__name__)


def sweep(url: str) -> int:
    """Fail the stuck sites of this database, unless there are more than the cap; how many it was.

    Raises:
        RuntimeError: more than the cap are stuck; nothing was changed.
    """
    reaped = 0
    with psycopg.connect(url, autocommit=True) as connection:
        stuck = connection.execute(LIST).fetchall()
        if len(stuck) > CAP:
            raise RuntimeError(f"More than {CAP} sites are stuck: nothing was changed")
        for site, attempt in stuck:
            values = {"site": site, "attempt": attempt, "reason": REASON}
            if connection.execute(LOOK_AGAIN, values).fetchone() is None:
                log.info("site %s moved on before it could be failed", site)
                continue
            marked = connection.execute(FAIL, values).rowcount
            log.info("site %s: %s", site, "failed" if marked else "moved on meanwhile")
            reaped += marked
    return reaped


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    log.info("%s sites failed", sweep(os.environ["SITES_URL"]))
