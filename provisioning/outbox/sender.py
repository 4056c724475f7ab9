"""One delivery of one notice over HTTP: signed, and over within the deadline."""

from datetime import UTC, datetime
from math import floor
from uuid import UUID

from provisioning.http.client import Reply, ask
from provisioning.outbox.signing import Sign, signature

DEADLINE = 20.0
"""Seconds for one delivery: a lookup, a connection, and the 15 seconds for an answer that the
Standard Webhooks specification asks for at least."""


def signed(
    notice_id: UUID, sent_at: datetime, body: bytes, signers: tuple[Sign, ...]
) -> dict[str, str]:
    """The headers of the Standard Webhooks specification; unsigned if there is no key."""
    timestamp = str(floor(sent_at.astimezone(UTC).timestamp()))
    headers = {
        "content-type": "application/json",
        "webhook-id": str(notice_id),
        "webhook-timestamp": timestamp,
    }
    if signers:
        headers["webhook-signature"] = signature(signers, str(notice_id), timestamp, body)
    return headers


async def post(
    url: str, headers: dict[str, str], body: bytes, *, trusted: bool, proxy: str | None = None
) -> Reply:
    """Send once. What `trusted` and `proxy` mean, and what comes back, is as in `ask`."""
    return await ask(
        "POST", url, trusted=trusted, seconds=DEADLINE, headers=headers, body=body, proxy=proxy
    )
