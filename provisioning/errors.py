"""Errors that explain themselves, and database errors in an operator's words."""

from datetime import timedelta

from sqlalchemy.exc import DBAPIError

from provisioning.database import CONNECT_TIMEOUT, STATEMENT_TIMEOUT, sqlstate
from provisioning.site_state import Outcome
from provisioning.text import count, one_line


class Explained(Exception):
    """An error whose message is all that its reader needs: what is wrong, and what to do.

    A traceback beside it would only push the message off the page.
    """


class SettingsInvalid(Explained):
    """A setting is missing or unusable. The message names it and never shows its value."""


class DatabaseUnready(Explained):
    """The database can't be swept as it is. The message says what is wrong and what to do."""


class ClocksDiffer(DatabaseUnready):
    """The database's clock and the worker's are more than a few minutes apart.

    Attributes:
        ahead: how far the database's is ahead; negative where it is behind.
    """

    def __init__(self, message: str, ahead: timedelta) -> None:
        self.ahead = ahead
        super().__init__(message)


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


class NotApprovable(Explained):
    """There is no such refusal to approve. Nothing was changed."""


class UnknownSite(Explained):
    """There is no such site."""


class Unstampable(Explained):
    """The site's metadata has no room for stamps: something that is no object is in the way."""


class AlreadyInFlight(Explained):
    """Another attempt of the site is under way. Nothing was changed."""


class NotInFlight(Explained):
    """The attempt is over, so its chain must stop. Nothing was changed.

    Attributes:
        outcome: why it is no longer in flight: finished, already failed, restarted or vanished.
    """

    def __init__(self, site_id: int, attempt: str, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(f"the attempt of {attempt} for site {site_id} {_MEANWHILE[outcome]}")


_MEANWHILE = {
    Outcome.FINISHED: "was completed by another worker",
    Outcome.ALREADY_FAILED: "was failed meanwhile",
    Outcome.RESTARTED: "was followed by a newer one",
    Outcome.VANISHED: "lost its site, which was deleted",
    Outcome.BUSY: "was changed at this very moment",
}


class UpstreamRefused(Explained):
    """The upstream answered, and asking again would not change the answer."""


class GaveUp(Explained):
    """The attempt's time is up, or would be before anybody may ask again."""


class NotYet(Exception):
    """There is no answer for now; a later question may get one.

    Attributes:
        wait: how long the one who was asked wants to be left alone.
    """

    def __init__(self, why: str, wait: timedelta = timedelta(0)) -> None:
        self.wait = wait
        super().__init__(why)


class Unresolved(Exception):
    """The name has no address now. It may have one later."""


def explain(error: DBAPIError) -> str:
    """A database error as an operator reads it: what happened and what to do, no SQL, no secret."""
    cause = one_line(str(error.orig), 300)
    match sqlstate(error):
        case None:
            return (
                f"the database did not answer within {CONNECT_TIMEOUT} seconds or closed the "
                f"connection ({cause}). Check that it runs, and that the worker's "
                "PROVISION_DATABASE_URL is right."
            )
        case "57014":
            return (
                f"a statement was cancelled, most likely by the {STATEMENT_TIMEOUT}-second limit "
                f"({cause}). Look for locks on `sites` and for load on the server."
            )
        case "55P03":
            return (
                f"somebody holds a lock ({cause}), such as an ALTER TABLE or a long transaction. "
                "Look at pg_locks; the next sweep tries again."
            )
        case "42501":
            return f"the database refused it ({cause}). Grant the rights that the README lists."
        case code:
            return f"the database answered with error {code} ({cause})."
