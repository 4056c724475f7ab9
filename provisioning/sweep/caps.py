"""The refusal: more matches than a cap means that something systemic broke, and a person looks."""

from dataclasses import dataclass
from datetime import datetime

from provisioning.errors import CapExceeded
from provisioning.text import count

SHARE_FROM = 5
"""The fewest stuck sites that a share refuses: of two in flight, one is half."""


@dataclass(frozen=True)
class Caps:
    """The most sites that may be reaped, each way in which it is bounded.

    For a sweep that approves a refusal only the first is set, to what the refusal listed: a person
    has looked.
    """

    per_run: int
    per_hour: int | None = None
    """Together with what the watchdog reaped in the last hour, without a person."""
    share: int | None = None
    """In percent of the sites in flight; counts from five stuck sites on."""


@dataclass(frozen=True)
class Standing:
    """A refusal of a scheduled sweep that nobody has answered yet: later ones refuse as well.

    Attributes:
        since: when the first such refusal was made.
        cap: the number that was passed then.
    """

    since: datetime
    cap: int

    @property
    def acts_at(self) -> int:
        """The most sites with which a scheduled sweep acts again."""
        return half(self.cap)


def half(cap: int) -> int:
    """How few must be stuck for a refusal to be over: half of the cap that was passed.

    Were it the cap itself, an outage that hovers about it would be reaped between two refusals.
    """
    return cap // 2


def check(
    found: int,
    in_flight: int,
    reaped_last_hour: int,
    caps: Caps,
    standing: Standing | None = None,
) -> None:
    """Let a sweep act, or refuse all of it. Exactly a cap acts; one more refuses.

    A sweep that found nothing is never refused: it reaps nothing, whatever the hour held.

    Args:
        standing: the refusal that holds this sweep back; None for what a person starts.

    Raises:
        CapExceeded: with the numbers that prove it.
    """
    stuck = count(found, "stuck site")
    if found > caps.per_run:
        raise CapExceeded(
            f"{stuck}, over the cap of {caps.per_run:,} a run", found=found, cap=caps.per_run
        )
    if caps.share and found >= SHARE_FROM and found * 100 > caps.share * in_flight:
        raise CapExceeded(
            f"{stuck} of {in_flight:,} in flight, over the share of {caps.share} %",
            found=found,
            cap=max(caps.share * in_flight // 100, SHARE_FROM - 1),
        )
    if standing and found > standing.acts_at:
        raise CapExceeded(
            f"{stuck}, and a refusal of {standing.since:%Y-%m-%d %H:%M} UTC stands",
            found=found,
            cap=standing.cap,
        )
    if caps.per_hour and found and found + reaped_last_hour > caps.per_hour:
        raise CapExceeded(
            f"{stuck} and {reaped_last_hour:,} reaped in the last hour, "
            f"over the cap of {caps.per_hour:,} an hour",
            found=found,
            cap=caps.per_hour,
            per_hour=True,
        )
