"""What the log of a run says first."""

from prefect.logging import get_run_logger

from provisioning.sweep.snapshot import Snapshot
from provisioning.text import count


def log_snapshot(snapshot: Snapshot) -> None:
    """Log what the sweep saw, and each of the first ten stamps that can't be read."""
    log = get_run_logger()
    log.info(
        "Found %s that started before %s; %s in flight, %s unreadable",
        count(snapshot.stuck_total, "stuck site"),
        snapshot.cutoff.isoformat(sep=" ", timespec="seconds"),
        f"{snapshot.in_flight:,}",
        f"{snapshot.unreadable_total:,}",
    )
    for site in snapshot.unreadable[:10]:
        log.warning(
            "%s: never reaped, its start stamp can't be read: %s", site, site.stamp or "(empty)"
        )
