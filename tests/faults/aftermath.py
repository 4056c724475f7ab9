"""What must be true once a sweep was cut short and the next one has run."""

from collections import defaultdict
from dataclasses import dataclass

from tests.outbox.receivers import Receiver
from tests.sites import Sites

SITES = range(1, 7)


@dataclass
class Aftermath:
    """Six sites that a sweep was at when something was killed, and their merchants' receiver."""

    sites: Sites
    merchant: Receiver

    async def leases_run_out(self) -> None:
        """A minute passes: whatever a killed sender had claimed may be sent again."""
        await self.sites.run(
            "UPDATE notices SET next_attempt_at = now() WHERE delivered_at IS NULL"
        )

    async def all_is_well(self) -> None:
        """Each site failed once, each merchant told with one id, and nothing left to do."""
        assert await self.sites.failed() == list(SITES)
        assert await self.sites.ledger() == list(SITES)
        assert await self.completed_and_failed() == []
        rows = await self.sites.rows("SELECT id, delivered_at FROM notices")
        assert len(rows) == len(SITES)
        assert all(row.delivered_at for row in rows)
        told = defaultdict(set)
        for request in self.merchant.requests:
            told[request.site_id].add((request.notice_id, request.body))
        assert sorted(told) == list(SITES), "each merchant was told at least once"
        assert all(len(messages) == 1 for messages in told.values()), "with one id, the same bytes"
        known = {str(row.id) for row in rows}
        assert {notice_id for messages in told.values() for notice_id, _ in messages} == known

    async def completed_and_failed(self) -> list[int]:
        """The sites that are completed and failed at once."""
        rows = await self.sites.rows(
            "SELECT id FROM sites WHERE metadata #>> '{terminal_failure}' IS NOT NULL"
            " AND metadata #>> '{health_check,completed_at}' IS NOT NULL"
        )
        return [row.id for row in rows]
