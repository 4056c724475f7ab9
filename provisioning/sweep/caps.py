"""The refusal: more matches than a cap means that something systemic broke, and a person looks."""

from dataclasses import dataclass

from provisioning.errors import CapExceeded


@dataclass(frozen=True)
class Caps:
    """The most sites that may be reaped: in one sweep, and without a person in one hour."""

    per_run: int
    per_hour: int | None
    """None for a sweep that approves a refusal: a person has looked."""


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
