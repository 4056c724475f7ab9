"""The words of a run: its name in the list of runs, and what its log says first."""

from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from provisioning.sweep.snapshot import Snapshot
from provisioning.text import count


def what_it_is() -> str:
    """What a run is, for the list of runs: scheduled, by hand, a dry run, an approval."""
    when = f"{flow_run.scheduled_start_time:%Y-%m-%d %H:%M} UTC"
    chosen = flow_run.parameters
    if chosen.get("dry_run"):
        return f"dry run {when}"
    if chosen.get("approve_refusal"):
        return f"approval of {str(chosen['approve_refusal'])[:8]} {when}"
    return f"{'sweep' if 'auto-scheduled' in flow_run.tags else 'sweep by hand'} {when}"


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
