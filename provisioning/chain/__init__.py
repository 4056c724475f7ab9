"""The first line of defence: the stamps of a chain, as functions that any chain can call."""

from provisioning.chain.attempts import (
    Progress,
    age,
    attempt_of,
    begin,
    claim_upstream,
    known_as,
    progress,
    remember_upstream,
    step,
)
from provisioning.chain.ending import complete, fail
from provisioning.errors import AlreadyInFlight, NotInFlight, UnknownSite, Unstampable

__all__ = [
    "AlreadyInFlight",
    "NotInFlight",
    "Progress",
    "UnknownSite",
    "Unstampable",
    "age",
    "attempt_of",
    "begin",
    "claim_upstream",
    "complete",
    "fail",
    "known_as",
    "progress",
    "remember_upstream",
    "step",
]
