"""What is owed for a failure: a webhook to the merchant, a teardown to the platform."""

from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import (
    CTE,
    ColumnElement,
    LargeBinary,
    Text,
    Uuid,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from provisioning.http.urls import LONGEST_URL
from provisioning.outbox.signing import LONGEST_SECRET
from provisioning.schema import notices
from provisioning.stamps import iso

LONGEST_DOMAIN = 255
"""Characters of a domain that are kept; DNS allows 253."""

NAMESPACE = UUID("f3673c27-e076-4a7f-adeb-fdaa741b5c39")
"""Of our ids. It must never change: receivers drop repeats by them."""


class Kind(StrEnum):
    """What a notice is for."""

    WEBHOOK = "webhook"
    TEARDOWN = "teardown"

    @property
    def event_type(self) -> str:
        """The `type` of its body."""
        return {
            Kind.WEBHOOK: "site.provision_failed",
            Kind.TEARDOWN: "site.teardown_requested",
        }[self]


class Told(StrEnum):
    """All that a merchant is ever told of why: no host, no setting, nobody else's words."""

    LATE = "The site was not ready in time."
    STOPPED = "Setting up the site was stopped."
    FAILED = "Setting up the site failed."


def stable_ids(site_id: Any, attempt: str) -> dict[str, UUID]:
    """The ids of a failure and of its notices, as parameters of the statement that records them.

    Derived from what they are for, so that a failure that is recorded again after a failover that
    lost the last commits, or in a restored database, tells each receiver under the same id.
    """
    name = f"{site_id}\n{attempt}"
    return {
        "failure_id": uuid5(NAMESPACE, name),
        **{f"{kind}_id": uuid5(NAMESPACE, f"{name}\n{kind}") for kind in Kind},
    }


def bounded(text: ColumnElement[Any], limit: int) -> ColumnElement[str]:
    """A text with one character more than is allowed, so that what was cut does not pass for whole.

    However long it is, it costs no memory outside of the database.
    """
    return func.left(text, limit + 1)


def owed_for(mark: CTE, entry: CTE, *, told: Any, teardown: ColumnElement[bool]) -> Insert:
    """Record the notices for a failure that is being entered in the ledger.

    A blank webhook owes nothing. A teardown has no URL of its own: it goes to wherever the
    operator's setting points when it is sent, so that a corrected setting reaches what is owed.

    Args:
        mark: the site as it is marked: `id`, `domain`, `webhook` and `webhook_secret`.
        entry: its new row of the ledger; no row where the attempt had one before.
        told: what the merchant is told of the reason.
    """
    both = entry.join(mark, true())
    url = bounded(mark.c.webhook, LONGEST_URL)
    secret = bounded(mark.c.webhook_secret, LONGEST_SECRET)
    nothing = cast(null(), Text)

    def row(kind: Kind, *columns: Any, reason: Any) -> list[Any]:
        notice_id = bindparam(f"{kind}_id", type_=Uuid())
        name = literal(kind.value, Text, literal_execute=True)
        return [notice_id, entry.c.id, name, *columns, body(kind, mark, entry, reason)]

    webhook = row(Kind.WEBHOOK, url, case((secret.regexp_match(r"\S"), secret)), reason=told)
    torn_down = row(Kind.TEARDOWN, nothing, nothing, reason=entry.c.reason)
    return (
        insert(notices)
        .from_select(
            ["id", "failure_id", "kind", "url", "secret", "body"],
            union_all(
                select(*webhook).select_from(both).where(url.regexp_match(r"\S")),
                select(*torn_down).select_from(both).where(teardown),
            ),
        )
        .on_conflict_do_nothing()
    )


def body(kind: Kind, mark: CTE, entry: CTE, reason: Any) -> ColumnElement[bytes]:
    """The payload, in the shape that the Standard Webhooks specification recommends.

    A teardown names what the attempt itself had made at the upstream, and nothing else.

    Fixed when the failure is recorded: every attempt to deliver it sends the same bytes.
    """
    made: list[Any] = (
        [
            *("upstream_id", mark.c.upstream_id),
            *("upstream_marker", mark.c.upstream_marker),
        ]
        if kind is Kind.TEARDOWN
        else []
    )
    payload = func.json_build_object(
        *("type", kind.event_type),
        *("timestamp", iso(entry.c.failed_at)),
        "data",
        func.json_build_object(
            *("failure_id", entry.c.id),
            *("site_id", mark.c.id),
            *("domain", entry.c.domain),
            *("attempt", entry.c.attempt),
            *("reason", reason),
            *("source", entry.c.source),
            *made,
        ),
    )
    return func.convert_to(cast(payload, Text), "UTF8", type_=LargeBinary())
