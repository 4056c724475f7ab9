"""A round of deliveries: many side by side, within a bound, and what came of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.http.client import NoAnswer
from provisioning.http.urls import shown
from provisioning.outbox.notices import Kind
from provisioning.outbox.retry_policy import Fate, Verdict, judge
from provisioning.outbox.sender import post, signed
from provisioning.outbox.store import Backlog, Claim, Notice, claim, record
from provisioning.settings import Settings
from provisioning.text import count

AT_ONCE = 20
"""Notices that are being sent at one moment."""

BEGIN_WITHIN = 36.0
"""Seconds in which a round begins deliveries. With the deadline of the last of them, receivers hold
up a sweep for less than a minute; what it did not get to stays owed."""

UNSET = "PROVISION_TEARDOWN_URL is not set"


@dataclass(frozen=True)
class Delivery:
    """What became of a notice that a round took up.

    `verdict` is None where another sender has the notice or has settled it.
    """

    notice: Notice
    receiver: str
    verdict: Verdict | None

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.notice}: another sender has it"
        return f"{self.notice} to {self.receiver}: {self.verdict.fate}: {self.verdict.reason}"


@dataclass(frozen=True)
class Deliveries:
    """The notices after a round. Lists are bounded, numbers are exact.

    Attributes:
        listed_at: when the round began, by the database's clock.
        delivered: what this round delivered.
        owed: what is still owed, teardowns first, then the longest owed first.
        given_up: what was given up within a day, by this round first.
        given_up_now: how many of them by this round.
        given_up_total: how many there are.
        webhooks_owed: how many webhooks are still owed.
        teardowns_owed: how many teardowns are still owed, but for those that another sender is
            busy with: the platform still holds what those attempts made.
        not_reached: how many of those taken up stay owed, untried, because the round's time was up.
    """

    listed_at: datetime
    delivered: tuple[Notice, ...]
    owed: tuple[Notice, ...]
    given_up: tuple[Notice, ...]
    given_up_now: int
    given_up_total: int
    webhooks_owed: int
    teardowns_owed: int
    not_reached: int

    @property
    def quiet(self) -> bool:
        """Whether nothing was delivered, is owed or was given up now."""
        owed = self.webhooks_owed or self.teardowns_owed
        return not (self.delivered or owed or self.given_up_now)

    def __str__(self) -> str:
        """The numbers: "3 notices delivered, 2 notices still owed (1 teardown)"."""
        owed = self.webhooks_owed + self.teardowns_owed
        teardowns = f" ({count(self.teardowns_owed, 'teardown')})" if self.teardowns_owed else ""
        parts = [
            f"{count(len(self.delivered), 'notice')} delivered" if self.delivered else "",
            f"{count(owed, 'notice')} still owed{teardowns}" if owed else "",
            f"{count(self.given_up_now, 'notice')} given up" if self.given_up_now else "",
        ]
        return ", ".join(filter(None, parts)) or "no notices owed"


def sendable(backlog: Backlog, config: Settings) -> list[Notice]:
    """What a round takes up: what is due, without the teardowns that have nowhere to go."""
    return [
        notice
        for notice in backlog.owed
        if backlog.due(notice) and (notice.kind is Kind.WEBHOOK or config.teardown_url)
    ]


async def deliver(engine: AsyncEngine, notice: Notice, config: Settings) -> Delivery:
    """Deliver one notice: claim it, send it, record what came of it.

    No transaction and no connection is held while the network is used. Killed anywhere in between,
    it leaves the notice owed, and what is sent then has the same id and the same bytes.

    Raises:
        DatabaseError: the database did not answer; the notice stays owed.
    """
    claimed = await claim(engine, notice.id)
    if claimed is None:
        return Delivery(notice, notice.receiver, None)
    url = _url(claimed, config)
    result = (
        await post(
            url,
            signed(notice.id, claimed.claimed_at, claimed.body, config.webhook_secret),
            claimed.body,
            trusted=claimed.kind is Kind.TEARDOWN or config.webhook_allow_private_networks,
            proxy=config.egress_proxy.get_secret_value() if config.egress_proxy else None,
        )
        if url is not None
        else NoAnswer(UNSET)
    )
    verdict = judge(
        claimed.kind,
        result,
        attempts=claimed.attempts,
        failed_at=claimed.failed_at,
        now=claimed.claimed_at,
    )
    await record(engine, notice.id, claimed.attempts, verdict)
    return Delivery(notice, shown(url or ""), verdict)


def _url(claimed: Claim, config: Settings) -> str | None:
    if claimed.kind is Kind.WEBHOOK:
        return claimed.url
    return config.teardown_url.get_secret_value() if config.teardown_url else None


async def side_by_side(
    due: Sequence[Notice], deliver_one: Callable[[Notice], Awaitable[Delivery]]
) -> list[Delivery]:
    """Deliver many, a few at once, in order, until all are done or no more may be begun.

    A notice whose delivery raises stays owed and says so; it stops none of the others.
    """
    last_start = monotonic() + BEGIN_WITHIN
    waiting, made = deque(due), list[Delivery]()

    async def send_in_turn() -> None:
        while waiting and monotonic() < last_start:
            notice = waiting.popleft()
            try:
                made.append(await deliver_one(notice))
            except Exception as error:  # noqa: BLE001
                reason = f"no result was recorded ({type(error).__name__})"
                made.append(Delivery(notice, notice.receiver, Verdict(Fate.OWED, reason)))

    await asyncio.gather(*(send_in_turn() for _ in range(AT_ONCE)))
    return made


def sum_up(backlog: Backlog, made: Sequence[Delivery], config: Settings) -> Deliveries:
    """What the backlog has come to after these deliveries."""
    by_notice = {delivery.notice.id: delivery for delivery in made}
    delivered = [d.notice for d in made if _fate(d) is Fate.DELIVERED]
    given_up = [_after(d.notice, by_notice) for d in made if _fate(d) is Fate.GIVEN_UP]
    elsewhere = [d.notice for d in made if d.verdict is None]
    settled = {notice.id for notice in [*delivered, *given_up, *elsewhere]}
    owed = [
        _explained(_after(notice, by_notice), config)
        for notice in backlog.owed
        if notice.id not in settled and not backlog.in_hand(notice)
    ]

    def left(total: int, kind: Kind) -> int:
        return total - sum(n.kind is kind for n in [*delivered, *given_up, *elsewhere])

    return Deliveries(
        listed_at=backlog.listed_at,
        delivered=tuple(delivered),
        owed=tuple(sorted(owed, key=lambda n: (n.kind is Kind.WEBHOOK, n.failed_at))),
        given_up=(*given_up, *backlog.given_up),
        given_up_now=len(given_up),
        given_up_total=len(given_up) + backlog.given_up_total,
        webhooks_owed=left(backlog.webhooks, Kind.WEBHOOK),
        teardowns_owed=left(backlog.teardowns, Kind.TEARDOWN),
        not_reached=len(sendable(backlog, config)) - len(made),
    )


def _fate(delivery: Delivery) -> Fate | None:
    return delivery.verdict.fate if delivery.verdict else None


def _after(notice: Notice, made: Mapping[UUID, Delivery]) -> Notice:
    delivery = made.get(notice.id)
    if delivery is None or delivery.verdict is None:
        return notice
    return replace(notice, attempts=notice.attempts + 1, last_error=delivery.verdict.reason)


def _explained(notice: Notice, config: Settings) -> Notice:
    if notice.kind is Kind.TEARDOWN and config.teardown_url is None:
        return replace(notice, last_error=UNSET)
    return notice
