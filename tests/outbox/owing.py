"""What the tests of the notices share."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.failures import Source, fail_terminally
from provisioning.outbox.delivery import deliver
from provisioning.outbox.dispatcher import Deliveries, sendable, side_by_side, sum_up
from provisioning.outbox.store import TAKEN_UP, list_owed
from provisioning.settings import Settings
from provisioning.site_state import Outcome
from tests.sites import Sites, site

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TEARDOWN_SECRET = "whsec_dGVhcmRvd25zIGFuZCBub3RoaW5nIGVsc2U="


@dataclass
class Network:
    """The network of a test: its names, what was dialled, and where public addresses lead."""

    names: dict[str, list[str]]
    routes: dict[str, int]
    """Public addresses that a receiver on loopback stands in for, and its port."""
    dialled: list[str]


@dataclass
class Owing:
    """Fails sites, so that notices are owed, and delivers them as a sweep does."""

    engine: AsyncEngine
    sites: Sites
    config: Settings

    async def fail(
        self,
        site_id: int,
        webhook: Any,
        *,
        key: Any = None,
        teardown: bool = False,
        **more: Any,
    ) -> None:
        """One site, failed. `key` is the merchant's own signing key."""
        stamps = {"started_at": "2025-01-15T14:00:00Z", "webhook": webhook, "webhook_secret": key}
        await self.sites.add(site_id, {"provision": stamps}, **more)
        outcome = await fail_terminally(
            self.engine,
            site(site_id),
            "2025-01-15T14:00:00Z",
            reason="watchdog: exceeded the 30-minute threshold without completing",
            source=Source.WATCHDOG,
            teardown=teardown,
        )
        assert outcome is Outcome.REAPED

    async def sweep(self) -> Deliveries:
        """One round, as a sweep makes it."""
        backlog = await list_owed(
            self.engine, TAKEN_UP, teardowns=self.config.teardown_url is not None
        )
        attempts = await side_by_side(
            sendable(backlog, self.config),
            lambda notice: deliver(self.engine, notice, self.config),
        )
        return sum_up(backlog, attempts, self.config)

    async def later(self) -> None:
        """Enough time has passed for whatever is owed to be due."""
        await self.sites.run("UPDATE notices SET next_attempt_at = now()")

    async def notice(self, site_id: int, kind: str = "webhook") -> Any:
        """The row of a notice, and how long from now on its next attempt waits, in seconds."""
        (row,) = await self.sites.rows(
            "SELECT n.*, extract(epoch FROM next_attempt_at - now())::float AS wait "
            "FROM notices n JOIN terminal_failures f ON f.id = failure_id "
            "WHERE site_id = :site_id AND kind = :kind",
            site_id=str(site(site_id)),
            kind=kind,
        )
        return row

    async def notice_id(self, site_id: int, kind: str = "webhook") -> UUID:
        return UUID(str((await self.notice(site_id, kind)).id))


def config(
    *, teardown_url: str | None = None, secret: str | None = SECRET, private: bool = True
) -> Settings:
    """A worker's settings; by default one that may reach receivers on loopback."""
    return Settings(
        database_url=SecretStr("postgresql://not.used/here"),
        teardown_url=SecretStr(teardown_url) if teardown_url else None,
        webhook_secret=SecretStr(secret) if secret else None,
        teardown_secret=SecretStr(TEARDOWN_SECRET) if secret else None,
        webhook_allow_private_networks=private,
    )
