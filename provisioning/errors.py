"""Errors that explain themselves."""

from datetime import timedelta
from typing import TYPE_CHECKING

from provisioning.schema import SiteId

if TYPE_CHECKING:
    from provisioning.site_state import Outcome

LOCKED = "55P03"
"""SQLSTATE of a lock that did not come within `lock_timeout`."""


class Explained(Exception):
    """An error whose message is all that its reader needs: what is wrong, and what to do.

    A traceback beside it would only push the message off the page.
    """


class SettingsInvalid(Explained):
    """A setting is missing or unusable. The message names it and never shows its value."""


class DatabaseError(Explained):
    """The database did not do it. The message says what happened and what to do.

    It stands in for the driver's exception, which prints rows, parameters and URLs, and holds
    nothing of it.

    Attributes:
        sqlstate: the server's code for it; None where no server answered.
        transient: whether the same call can succeed a moment later without anybody's help.
    """

    def __init__(
        self, message: str, sqlstate: str | None = None, *, transient: bool = False
    ) -> None:
        self.sqlstate, self.transient = sqlstate, transient
        super().__init__(message)

    @property
    def locked(self) -> bool:
        """Whether somebody held a lock for longer than a statement waits for one."""
        return self.sqlstate == LOCKED

    @property
    def unreadable(self) -> bool:
        """Whether the server could not read a value as the type of a column, such as an id."""
        return self.sqlstate in ("22P02", "22003")


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
        cap: the number of candidates, or for the hourly cap of sites, that would have been passed.
        per_hour: whether that is the hourly cap.
    """

    def __init__(self, message: str, *, found: int, cap: int, per_hour: bool = False) -> None:
        self.found, self.cap, self.per_hour = found, cap, per_hour
        super().__init__(message)


class NotMarked(Explained):
    """A site that nothing protects from being failed does not carry the mark."""


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

    def __init__(self, site_id: SiteId, attempt: str, outcome: "Outcome") -> None:
        self.outcome = outcome
        super().__init__(f"the attempt of {attempt} for site {site_id} {_MEANWHILE[outcome]}")


_MEANWHILE = {
    "finished": "was completed by another worker",
    "already_failed": "was failed meanwhile",
    "restarted": "was followed by a newer one",
    "vanished": "lost its site, which was deleted",
    "busy": "was changed at this very moment",
}


class UpstreamRefused(Explained):
    """The upstream answered, and asking again would not change the answer."""


class BadDomain(Explained):
    """The site's domain is no host name, so no upstream can make a site for it."""


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


class NotThere(NotYet):
    """What was asked for is not there: not yet, or not any more."""


class Unresolved(Exception):
    """The name has no address now. It may have one later."""
