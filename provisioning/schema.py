"""The tables: the platform's `sites`, and the three that are ours.

There is no foreign key to `sites`: it would lock the platform's rows, and the ledger must outlive
them.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

tables = MetaData()

sites = Table(
    "sites",
    tables,
    Column("id", BigInteger, primary_key=True),
    Column("domain", Text),
    Column("metadata", JSONB),
)

terminal_failures = Table(
    "terminal_failures",
    tables,
    Column("id", Uuid, primary_key=True),
    Column("site_id", BigInteger, nullable=False),
    Column("attempt", Text, nullable=False),
    Column("failed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("reason", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("flow_run_id", Uuid),
    UniqueConstraint("site_id", "attempt", name="terminal_failures_site_attempt"),
    CheckConstraint("source IN ('watchdog', 'approved', 'chain')", name="terminal_failures_source"),
    Index("terminal_failures_watchdog", "failed_at", postgresql_where=text("source = 'watchdog'")),
)

notices = Table(
    "notices",
    tables,
    Column("id", Uuid, primary_key=True),
    Column(
        "failure_id",
        Uuid,
        ForeignKey("terminal_failures.id", name="notices_failure"),
        nullable=False,
    ),
    Column("kind", Text, nullable=False),
    Column("url", Text),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("delivered_at", DateTime(timezone=True)),
    Column("given_up_at", DateTime(timezone=True)),
    Column("last_error", Text),
    UniqueConstraint("failure_id", "kind", name="notices_failure_kind"),
    CheckConstraint("kind IN ('webhook', 'teardown')", name="notices_kind"),
    Index(
        "notices_owed",
        "next_attempt_at",
        postgresql_where=text("delivered_at IS NULL AND given_up_at IS NULL"),
    ),
    Index("notices_given_up", "given_up_at", postgresql_where=text("given_up_at IS NOT NULL")),
)

sweep_refusals = Table(
    "sweep_refusals",
    tables,
    Column("flow_run_id", Uuid, primary_key=True),
    Column("refused_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("cap", Integer, nullable=False),
    Column("candidates", JSONB, nullable=False),
    Index("sweep_refusals_refused_at", "refused_at"),
)
