"""What the log of a run says first."""

from prefect.logging import get_run_logger

from provisioning.sweep.snapshot import Snapshot
from provisioning.text import count


def log_snapshot(snapshot: Snapshot) -> None:
    """Log what the sweep saw, and the first ten of each kind that it leaves alone."""
    log = get_run_logger()
    log.info(
        "Found %s that started before %s; %s in flight, %s unreadable, %s on hold, "
        "%s before a deadline of their own",
        count(snapshot.stuck_total, "stuck site"),
        snapshot.cutoff.isoformat(sep=" ", timespec="seconds"),
        f"{snapshot.in_flight:,}",
        f"{snapshot.unreadable_total:,}",
        f"{snapshot.on_hold_total:,}",
        f"{snapshot.waiting_total:,}",
    )
    for held in snapshot.on_hold[:10]:
        log.info("%s: not reaped, on hold: %s", held, held.stamp)
    for waiting in snapshot.waiting[:10]:
        log.info("%s: not stuck before its own deadline: %s", waiting, waiting.stamp)
    for site in snapshot.unreadable[:10]:
        log.warning(
            "%s: never reaped, its start stamp can't be read: %s", site, site.stamp or "(empty)"
        )
