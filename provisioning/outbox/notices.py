"""What is owed for a failure: a webhook to the merchant, a teardown to the platform."""

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Insert,
    LargeBinary,
    Text,
    cast,
    func,
    insert,
    literal_column,
    null,
    select,
    union_all,
)

from provisioning.schema import notices
from provisioning.stamps import iso

EVENT_TYPE = "site.provision_failed"


class Kind(StrEnum):
    """What a notice is for."""

    WEBHOOK = "webhook"
    TEARDOWN = "teardown"


def owed_for(mark: CTE, entry: CTE, *, teardown: ColumnElement[bool]) -> Insert:
    """Record the notices for a failure that is being entered in the ledger.

    A blank webhook owes nothing. A teardown has no URL of its own: it goes to wherever the
    operator's setting points when it is sent, so that a corrected setting reaches what is owed.

    Args:
        mark: the site as it is marked: `id`, `domain` and `webhook`.
        entry: its new row of the ledger; no row where the attempt had one before.
    """
    both = entry.join(mark, cast(mark.c.id, Text) == entry.c.site_id)

    def row(kind: Kind, url: ColumnElement[Any]) -> list[ColumnElement[Any]]:
        name: ColumnElement[str] = literal_column(f"'{kind.value}'")
        return [func.gen_random_uuid(), entry.c.id, name, url, body(mark, entry)]

    return insert(notices).from_select(
        ["id", "failure_id", "kind", "url", "body"],
        union_all(
            select(*row(Kind.WEBHOOK, mark.c.webhook))
            .select_from(both)
            .where(mark.c.webhook.regexp_match(r"\S")),
            select(*row(Kind.TEARDOWN, cast(null(), Text))).select_from(both).where(teardown),
        ),
    )


def body(mark: CTE, entry: CTE) -> ColumnElement[bytes]:
    """The payload, in the shape that the Standard Webhooks specification recommends.

    Fixed when the failure is recorded: every attempt to deliver it sends the same bytes.
    """
    payload = func.json_build_object(
        *("type", EVENT_TYPE),
        *("timestamp", iso(entry.c.failed_at)),
        "data",
        func.json_build_object(
            *("failure_id", entry.c.id),
            *("site_id", mark.c.id),
            *("domain", mark.c.domain),
            *("attempt", entry.c.attempt),
            *("reason", entry.c.reason),
            *("source", entry.c.source),
        ),
    )
    return func.convert_to(cast(payload, Text), "UTF8", type_=LargeBinary())
