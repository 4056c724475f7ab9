"""The automations of deployments/automations.yaml, applied to a Prefect server.

    PREFECT_API_URL=... python -m deployments.automations

Repeatable: each is found by its name, created where it is missing and updated where it differs.
One that somebody disabled stays disabled.

Environment:
  PREFECT_API_URL         the Prefect server (or the active Prefect profile's)
  PROVISION_ALERT_BLOCK   the block that alerts go to, as type/name: webhook/oncall for a block of
                          type webhook, or any type that sends notifications, such as
                          slack-webhook/oncall. Without it, alerts go where they went before, and
                          where that is nowhere they show in the UI alone
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import BlockDocument
from prefect.events.actions import CallWebhook, DoNothing, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL

from deployments.errors import StackError
from deployments.options import read_arguments

FILE = Path(__file__).with_name("automations.yaml")
BLOCK_VARIABLE = "PROVISION_ALERT_BLOCK"

Alert = CallWebhook | SendNotification | DoNothing


def main() -> int:
    """Applies the file and prints what became of each automation."""
    read_arguments("deployments.automations", __doc__)
    try:
        if not PREFECT_API_URL.value():
            raise StackError("Set PREFECT_API_URL to the API of the Prefect server.")
        with get_client(sync_client=True) as client:
            applied = apply(client, load(), os.environ.get(BLOCK_VARIABLE))
            alerting = all(where for _, where in applied.values())
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except httpx.HTTPError as error:
        print(f"The Prefect server {PREFECT_API_URL.value()} refused: {error}", file=sys.stderr)
        return 1
    for name, (what, _) in applied.items():
        print(f"{what:<10} {name}")
    if not alerting:
        print(
            "\nAlerts go nowhere: they show on the automations' pages in the UI alone. Make a "
            f"block for them (UI: Blocks), name it in {BLOCK_VARIABLE}, as in "
            "slack-webhook/oncall or webhook/oncall, and run this again."
        )
    return 0


def load() -> list[dict[str, Any]]:
    """The automations as the file has them."""
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["automations"]
    return found


def apply(
    client: SyncPrefectClient, entries: Sequence[Mapping[str, Any]], block: str | None
) -> dict[str, tuple[str, bool]]:
    """Makes the server's automations those of the entries, by name.

    Args:
        block: where alerts go, as `type/name`; None to leave that as it is.

    Returns:
        For each name what was done, and whether its actions lead anywhere.
    """
    target = find_block(client, block) if block else None
    applied = {}
    for entry in entries:
        present = _present(client, entry["name"])
        wanted = _wanted(entry, target, present)
        leads_somewhere = not any(isinstance(action, DoNothing) for action in wanted.actions)
        applied[wanted.name] = (_apply(client, wanted, present), leads_somewhere)
    return applied


def find_block(client: SyncPrefectClient, name: str) -> BlockDocument:
    """The block that the operator named, if alerts can go there."""
    kind, _, own_name = name.partition("/")
    try:
        block = client.read_block_document_by_name(own_name, kind, include_secrets=False)
    except (ObjectNotFound, httpx.HTTPStatusError) as error:
        raise StackError(
            f"{BLOCK_VARIABLE}: the server has no block {name!r}. Give it as type/name, such as "
            "slack-webhook/oncall; the page Blocks of the UI lists those that there are."
        ) from error
    if not (_is_webhook(block) or _notifies(block)):
        raise StackError(
            f"{BLOCK_VARIABLE}: {name!r} is neither a webhook nor a block that sends "
            "notifications, so no alert can go there."
        )
    return block


def _is_webhook(block: BlockDocument) -> bool:
    return block.block_type is not None and block.block_type.slug == "webhook"


def _notifies(block: BlockDocument) -> bool:
    return block.block_schema is not None and "notify" in block.block_schema.capabilities


def _present(client: SyncPrefectClient, name: str) -> Automation | None:
    found = client.read_automations_by_name(name)
    if len(found) > 1:
        raise StackError(f"The server has {len(found)} automations {name!r}: delete all but one.")
    return found[0] if found else None


def _wanted(
    entry: Mapping[str, Any], target: BlockDocument | None, present: Automation | None
) -> AutomationCore:
    entry = dict(entry)
    alert = entry.pop("alert", None)
    if alert:
        entry["actions"] = [_alert(alert["subject"], alert["body"], target, present)]
    wanted = AutomationCore.model_validate(entry)
    return wanted.model_copy(update={"enabled": present.enabled if present else True})


def _alert(
    subject: str, body: str, target: BlockDocument | None, present: Automation | None
) -> Alert:
    """The action that sends the text to the block; without one, to the block of last time."""
    if target and _is_webhook(target):
        return _call(target.id, subject, body)
    if target:
        return SendNotification(block_document_id=target.id, subject=subject, body=body)
    for action in present.actions if present else []:
        if isinstance(action, CallWebhook):
            return _call(action.block_document_id, subject, body)
        if isinstance(action, SendNotification):
            return action.model_copy(update={"subject": subject, "body": body})
    return DoNothing()


def _call(block_id: UUID, subject: str, body: str) -> CallWebhook:
    """JSON with the one key that Slack, Mattermost and Rocket.Chat read."""
    payload = '{"text": {% filter tojson %}' + f"{subject}\n{body}" + "{% endfilter %}}"
    return CallWebhook(block_document_id=block_id, payload=payload)


def _apply(client: SyncPrefectClient, wanted: AutomationCore, present: Automation | None) -> str:
    if present is None:
        client.create_automation(wanted)
        return "created"
    if _essence(wanted) == _essence(present):
        return "unchanged" if present.enabled else "disabled"
    client.update_automation(present.id, wanted)
    return "updated"


def _essence(automation: AutomationCore) -> dict[str, Any]:
    return automation.model_dump(include={"description", "tags", "trigger", "actions"})


if __name__ == "__main__":
    sys.exit(main())
