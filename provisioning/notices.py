"""What is owed for a failure: a webhook to the merchant, a teardown to the platform."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

EVENT_TYPE = "site.provision_failed"


class Kind(StrEnum):
    """What a notice is for."""

    WEBHOOK = "webhook"
    TEARDOWN = "teardown"


@dataclass(frozen=True)
class Failure:
    """One attempt of one site, failed for good. `webhook` is a secret: it may hold a token."""

    id: UUID
    site_id: int
    domain: str | None
    attempt: str
    failed_at: datetime
    reason: str
    source: str
    flow_run_id: UUID | None
    webhook: str | None = field(repr=False)


def notices_owed(failure: Failure, *, teardown: bool) -> list[dict[str, Any]]:
    """The rows of `notices` for a failure that was just entered in the ledger.

    A teardown has no URL of its own: it goes to wherever the operator's setting points when it is
    sent, so that a corrected setting reaches what is already owed.
    """
    owed: list[tuple[Kind, str | None]] = []
    if failure.webhook is not None and failure.webhook.strip():
        owed.append((Kind.WEBHOOK, failure.webhook))
    if teardown:
        owed.append((Kind.TEARDOWN, None))
    return [
        {
            "id": uuid4(),
            "failure_id": failure.id,
            "kind": kind.value,
            "url": url,
            "body": body(failure),
        }
        for kind, url in owed
    ]


def body(failure: Failure) -> bytes:
    """The payload, in the shape that the Standard Webhooks specification recommends.

    Fixed when the failure is recorded: every attempt to deliver it sends the same bytes.
    """
    payload = {
        "type": EVENT_TYPE,
        "timestamp": failure.failed_at.isoformat().replace("+00:00", "Z"),
        "data": {
            "failure_id": str(failure.id),
            "site_id": failure.site_id,
            "domain": failure.domain,
            "attempt": failure.attempt,
            "reason": failure.reason,
            "source": failure.source,
        },
    }
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
