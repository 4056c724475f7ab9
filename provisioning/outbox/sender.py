"""One delivery of one notice over HTTP: signed, and over within the deadline."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor
from uuid import UUID

from pydantic import SecretStr
from standardwebhooks import Webhook

from provisioning.http.client import Reply, ask

DEADLINE = 20.0
"""Seconds for one delivery: a lookup, a connection, and the 15 seconds for an answer that the
Standard Webhooks specification asks for at least."""


def signed(
    notice_id: UUID, sent_at: datetime, body: bytes, secret: SecretStr | None
) -> dict[str, str]:
    """The headers of the Standard Webhooks specification; unsigned where there is no secret."""
    moment = sent_at.astimezone(UTC)
    headers = {
        "content-type": "application/json",
        "webhook-id": str(notice_id),
        "webhook-timestamp": str(floor(moment.timestamp())),
    }
    if secret is not None:
        webhook = Webhook(secret.get_secret_value())
        headers["webhook-signature"] = webhook.sign(str(notice_id), moment, body.decode())
    return headers


async def post(
    url: str, headers: Mapping[str, str], body: bytes, *, trusted: bool, proxy: str | None = None
) -> Reply:
    """Send once, as `ask` does."""
    return await ask(
        "POST",
        url,
        trusted=trusted,
        seconds=DEADLINE,
        headers=headers,
        body=body,
        proxy=proxy,
    )
