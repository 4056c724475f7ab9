"""The refusal: more matches than a cap means that something systemic broke, and a person looks."""

from dataclasses import dataclass

from provisioning.explained import Explained
from provisioning.text import count


@dataclass(frozen=True)
class Caps:
    """The most sites that may be reaped: in one sweep, and without a person in one hour."""

    per_run: int
    per_hour: int | None
    """None for a sweep that approves a refusal: a person has looked."""


class CapExceeded(Explained):
    """A sweep found more than it may reap. Nothing was changed.

    Attributes:
        found: the candidates of this sweep.
        reaped_last_hour: what the watchdog reaped in the hour before it.
        cap: the number that would have been passed.
        per_hour: whether that number is the hourly cap.
    """

    def __init__(self, found: int, reaped_last_hour: int, cap: int, *, per_hour: bool) -> None:
        self.found, self.reaped_last_hour = found, reaped_last_hour
        self.cap, self.per_hour = cap, per_hour
        super().__init__(
            f"{count(found, 'stuck site')} and {reaped_last_hour:,} reaped in the last hour, "
            f"over the cap of {cap:,} an hour"
            if per_hour
            else f"{count(found, 'stuck site')}, over the cap of {cap:,} a run"
        )


def check(found: int, reaped_last_hour: int, caps: Caps) -> None:
    """Let a sweep act, or refuse all of it. Exactly a cap acts; one more refuses.

    A sweep that found nothing is never refused: it reaps nothing, whatever the hour held.

    Raises:
        CapExceeded: with the numbers that prove it.
    """
    if found > caps.per_run:
        raise CapExceeded(found, reaped_last_hour, caps.per_run, per_hour=False)
    if caps.per_hour and found and found + reaped_last_hour > caps.per_hour:
        raise CapExceeded(found, reaped_last_hour, caps.per_hour, per_hour=True)
