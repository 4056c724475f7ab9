"""A round of deliveries: many side by side, in turn, within a bound, and what came of them."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from uuid import UUID

from provisioning.outbox.delivery import UNSET, Delivery
from provisioning.outbox.notices import Kind
from provisioning.outbox.retry_policy import Fate, Verdict
from provisioning.outbox.store import Backlog, Notice
from provisioning.settings import Settings
from provisioning.text import count

AT_ONCE = 40
"""Notices that are being sent at one moment."""

AT_ONCE_EACH = 10
"""Of them for one receiver, once it has answered. Before that it is sent one."""

BEGIN_WITHIN = 36.0
"""Seconds in which a round begins deliveries. With the deadline of the last of them, receivers hold
up a sweep for less than a minute; what it did not get to stays owed."""


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
        teardowns_given_up: how many teardowns were given up, now or ever, and are not acknowledged.
        not_reached: how many of those taken up stay owed, untried, because the round's time was up
            or their receiver hung.
    """

    listed_at: datetime
    delivered: tuple[Notice, ...]
    owed: tuple[Notice, ...]
    given_up: tuple[Notice, ...]
    given_up_now: int
    given_up_total: int
    webhooks_owed: int
    teardowns_owed: int
    teardowns_given_up: int
    not_reached: int

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to say of notices."""
        owed = self.webhooks_owed or self.teardowns_owed
        return not (self.delivered or owed or self.given_up_now or self.teardowns_given_up)

    def __str__(self) -> str:
        """The numbers: "3 notices delivered, 2 notices still owed (1 teardown)"."""
        owed = self.webhooks_owed + self.teardowns_owed
        teardowns = f" ({count(self.teardowns_owed, 'teardown')})" if self.teardowns_owed else ""
        parts = [
            f"{count(len(self.delivered), 'notice')} delivered" if self.delivered else "",
            f"{count(owed, 'notice')} still owed{teardowns}" if owed else "",
            f"{count(self.given_up_now, 'notice')} given up" if self.given_up_now else "",
            f"{count(self.teardowns_given_up, 'teardown')} given up and not acknowledged"
            if self.teardowns_given_up
            else "",
        ]
        return ", ".join(filter(None, parts)) or "no notices owed"


def sendable(backlog: Backlog, config: Settings) -> list[Notice]:
    """What a round takes up: what is due, without the teardowns that have nowhere to go."""
    return [
        notice
        for notice in backlog.owed
        if backlog.due(notice) and (notice.kind is Kind.WEBHOOK or config.teardown_url)
    ]


async def side_by_side(
    due: Sequence[Notice], deliver_one: Callable[[Notice], Awaitable[Delivery]]
) -> list[Delivery]:
    """Deliver many, a few at once, until all are done or no more may be begun.

    Receivers take turns, in the order of `due`, teardowns before all others. One that hung is left
    alone for the rest of the round, so that the others never wait for it a second time. A notice
    whose delivery raises stays owed and says so; it stops none of the others.
    """
    last_start, made = monotonic() + BEGIN_WITHIN, list[Delivery]()
    waiting: dict[str, deque[Notice]] = {}
    for notice in due:
        waiting.setdefault(notice.lane, deque()).append(notice)
    turns, turns_of = deque(waiting), Counter(waiting.keys())
    running = set[asyncio.Task[Delivery]]()
    try:
        while True:
            while turns and len(running) < AT_ONCE and monotonic() < last_start:
                if lane := waiting[turns.popleft()]:
                    running.add(asyncio.create_task(_delivered(lane.popleft(), deliver_one)))
            if not running:
                return made
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for delivery in (task.result() for task in done):
                made.append(delivery)
                receiver = delivery.notice.lane
                if delivery.hung:
                    waiting[receiver].clear()
                more = 1 + (turns_of[receiver] < AT_ONCE_EACH)
                turns_of[receiver] += more - 1
                first = delivery.notice.kind is Kind.TEARDOWN
                (turns.extendleft if first else turns.extend)([receiver] * more)
    finally:
        for task in running:
            task.cancel()


async def _delivered(
    notice: Notice, deliver_one: Callable[[Notice], Awaitable[Delivery]]
) -> Delivery:
    try:
        return await deliver_one(notice)
    except Exception as error:  # noqa: BLE001
        reason = f"no result was recorded ({type(error).__name__})"
        return Delivery(notice, notice.receiver, Verdict(Fate.OWED, reason))


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
        teardowns_given_up=backlog.teardowns_given_up
        + sum(notice.kind is Kind.TEARDOWN for notice in given_up),
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
