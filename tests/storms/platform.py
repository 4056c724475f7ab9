"""A platform in an outage and its sweeps, by a clock of the test's own.

The sweeps are the domain's own steps on a real database, in the order of the flow; only Prefect is
left out. A sweep at a moment of the past looks with a threshold that is as much longer, and our own
records are set back by as much as the clock goes on.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from provisioning.errors import CapExceeded
from provisioning.failures import Source, fail_terminally
from provisioning.site_state import Outcome
from provisioning.sweep.alerts import Alert, Told, Trouble, decide
from provisioning.sweep.approvals import find_refusal, listed_by
from provisioning.sweep.caps import Caps, Standing, check
from provisioning.sweep.refusals import (
    LISTED,
    close_refusals,
    read_past,
    record_refusal,
    release_refusals,
)
from provisioning.sweep.result import Ending
from provisioning.sweep.snapshot import look
from tests.sites import Sites

THRESHOLD = timedelta(minutes=30)
BASE = 3_000_000_000
"""Ids of sites begin above what 32 bits hold."""


@dataclass(frozen=True)
class Swept:
    """What one sweep did."""

    run: UUID
    ending: Ending
    found: int
    listed: frozenset[str] = frozenset()
    reaped: frozenset[str] = frozenset()
    why: str = ""
    standing: Standing | None = None
    alerts: tuple[Alert, ...] = ()


@dataclass
class Platform:
    """Sites that begin and finish, and a schedule that sweeps them."""

    engine: AsyncEngine
    now: datetime
    caps: Caps = field(default_factory=lambda: Caps(25, 100))
    told: dict[Trouble, Told] = field(default_factory=dict)
    begun: int = 0

    @property
    def sites(self) -> Sites:
        return Sites(self.engine)

    async def passes(self, span: timedelta) -> None:
        """The clock goes on, and what our records say of the past is so much longer ago."""
        self.now += span
        await self.sites.run(
            "UPDATE sweep_refusals SET refused_at = refused_at - CAST(:span AS interval)", span=span
        )
        await self.sites.run(
            "UPDATE terminal_failures SET failed_at = failed_at - CAST(:span AS interval)",
            span=span,
        )

    async def begins(
        self, number: int, *, step: str = "dns", ago: timedelta = timedelta(0)
    ) -> None:
        """That many sites begin."""
        await self.sites.run(
            """
            INSERT INTO sites
            SELECT i, 'shop-' || i || '.example', jsonb_build_object('provision',
                jsonb_build_object('step', CAST(:step AS text), 'started_at', CAST(:at AS text)))
              FROM generate_series(CAST(:first AS bigint), :last) AS i
            """,
            step=step,
            at=(self.now - ago).isoformat(),
            first=BASE + self.begun + 1,
            last=BASE + self.begun + number,
        )
        self.begun += number

    async def finishes(self, number: int) -> None:
        """That many of the sites in flight finish, the oldest first."""
        await self.sites.run(
            """
            UPDATE sites SET metadata = metadata || '{"health_check": {"completed_at": "x"}}'
             WHERE id IN (SELECT id FROM sites
                           WHERE metadata -> 'health_check' IS NULL
                             AND metadata -> 'terminal_failure' IS NULL
                           ORDER BY id LIMIT :number)
            """,
            number=number,
        )

    async def sweeps(
        self,
        *,
        scheduled: bool = True,
        caps: Caps | None = None,
        approves: UUID | None = None,
        run: UUID | None = None,
    ) -> Swept:
        """One sweep now; with the id of an earlier run, that run's Retry."""
        caps, run = caps or self.caps, run or uuid4()
        threshold = THRESHOLD + datetime.now(UTC) - self.now
        refusal = await find_refusal(self.engine, approves) if approves else None
        if refusal:
            threshold, caps = refusal.threshold, Caps(max(refusal.listed, 1))
        among = listed_by(refusal) if refusal else None
        seen = await look(self.engine, threshold, LISTED, writes=True, among=among)
        past = await read_past(self.engine, run)
        person = not scheduled or past.own is not None or refusal is not None
        standing = None if person else past.standing
        listed = frozenset(str(site.site_id) for site in seen.stuck)
        try:
            check(seen.stuck_total, seen.in_flight, seen.reaped_last_hour, caps, standing)
        except CapExceeded as refused:
            stands = not person and not refused.per_hour
            await record_refusal(self.engine, run, refused, seen, stands=stands)
            return self._ended(
                Swept(run, Ending.REFUSED, refused.found, listed, why=str(refused)), refusal
            )
        if refusal:
            await release_refusals(self.engine)
        else:
            await close_refusals(self.engine, threshold)
        reaped = set()
        for site in seen.stuck:
            outcome = await fail_terminally(
                self.engine,
                site.site_id,
                site.attempt,
                reason="watchdog: x",
                source=Source.APPROVED if refusal else Source.WATCHDOG,
                flow_run_id=run,
                started_before=seen.cutoff,
                by_person=person,
            )
            if outcome is Outcome.REAPED:
                reaped.add(str(site.site_id))
        ending = Ending.REAPED if reaped else Ending.CLEAN
        return self._ended(
            Swept(run, ending, seen.stuck_total, listed, frozenset(reaped), standing=past.standing),
            refusal,
        )

    def _ended(self, swept: Swept, refusal: object) -> Swept:
        """As the flow's hook, which leaves approvals out."""
        if refusal:
            return swept
        alerts = decide(swept.ending, self.told, self.now)
        for alert in alerts:
            self.told[alert.trouble] = Told(self.now, alert.moment, alert.since)
        return Swept(**{**swept.__dict__, "alerts": tuple(alerts)})
