"""One delivery: a notice claimed, signed, sent, judged and recorded."""

from dataclasses import dataclass
from random import SystemRandom

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.http.client import NoAnswer, Reply, Unsendable
from provisioning.http.urls import shown
from provisioning.outbox.claims import LONGEST_BODY, Claim, claim, record
from provisioning.outbox.notices import Kind
from provisioning.outbox.retry_policy import Verdict, judge
from provisioning.outbox.sender import post, signed
from provisioning.outbox.signing import keys
from provisioning.outbox.store import Notice
from provisioning.settings import Settings, revealed

UNSET = "PROVISION_TEARDOWN_URL is not set"

_chance = SystemRandom()


@dataclass(frozen=True)
class Delivery:
    """What became of a notice that a round took up.

    `verdict` is None if another sender has the notice or has settled it. `hung` says that the
    receiver used up the whole deadline.
    """

    notice: Notice
    receiver: str
    verdict: Verdict | None
    hung: bool = False

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.notice}: another sender has it"
        return f"{self.notice} to {self.receiver}: {self.verdict.fate}: {self.verdict.reason}"


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
    url = claimed.url if claimed.kind is Kind.WEBHOOK else revealed(config.teardown_url)
    receiver = shown(url or "")
    try:
        reply = await _send(notice, claimed, url, config)
    except Exception as error:  # noqa: BLE001  (unrecorded, it would come back in every sweep)
        reply = NoAnswer("could not be sent", type(error).__name__)
    verdict = judge(
        claimed.kind,
        reply,
        attempts=claimed.attempts,
        failed_at=claimed.failed_at,
        now=claimed.claimed_at,
        jitter=_chance.random(),
    )
    await record(engine, notice.id, claimed.attempts, verdict, receiver)
    hung = isinstance(reply, NoAnswer) and reply.timed_out
    return Delivery(notice, receiver, verdict, hung=hung)


async def _send(notice: Notice, claimed: Claim, url: str | None, config: Settings) -> Reply:
    if url is None:
        return Unsendable("it has no URL") if claimed.kind is Kind.WEBHOOK else NoAnswer(UNSET)
    if claimed.body is None:
        return Unsendable(f"its body is longer than {LONGEST_BODY:,} bytes")
    if claimed.kind is Kind.TEARDOWN:
        secret = revealed(config.teardown_secret)
    else:
        secret = claimed.secret or revealed(config.webhook_secret)
    try:
        signers = keys(secret) if secret else ()
    except ValueError as error:
        # Signed with another key, or not at all, it would teach its receiver to take forgeries.
        return Unsendable(f"provision.webhook_secret is no signing key: {error}")
    return await post(
        url,
        signed(notice.id, claimed.claimed_at, claimed.body, signers),
        claimed.body,
        trusted=claimed.kind is Kind.TEARDOWN or config.webhook_allow_private_networks,
        proxy=revealed(config.egress_proxy),
    )
