"""The tables: the platform's, by whatever names it has, and the four that are ours.

In the program's own words the platform's table is `sites` with `id`, `domain` and `metadata`.
There is no foreign key to it: it would lock the platform's rows, and the ledger must outlive them.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BLANK_SCHEMA,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    and_,
    bindparam,
    cast,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType

from provisioning.mapping import MAPPING

SiteId = int | UUID | str
"""The id of a site, as the platform's column has it. In our own tables it is text."""

tables = MetaData(schema=MAPPING.schema_of_ours)

sites = Table(
    MAPPING.table,
    tables,
    # Whatever its type: a bound id goes to the server as a literal, which takes that type there.
    Column(MAPPING.sites_id, NullType, key="id", primary_key=True),
    Column(MAPPING.sites_domain, Text, key="domain"),
    Column(MAPPING.sites_metadata, JSONB, key="metadata"),
    *(
        [Column(MAPPING.sites_deleted_at, NullType, key="deleted_at")]
        if MAPPING.sites_deleted_at
        else []
    ),
    schema=MAPPING.table_schema or BLANK_SCHEMA,
)

DOMAIN: ColumnElement[str] = cast(sites.c.domain, Text)
"""The domain as text, whatever its type: citext and char have rules of their own."""

PRESENT: ColumnElement[bool] = sites.c.deleted_at.is_(None) if "deleted_at" in sites.c else true()
"""The row is there. One that the platform deleted softly is as good as gone."""


def row_of(site: ColumnElement[Any] | SiteId) -> ColumnElement[bool]:
    """The row of one site, found by the platform's own key."""
    wanted = site if isinstance(site, ColumnElement) else bound_id(site)
    return and_(sites.c.id == wanted, PRESENT)


def bound_id(site_id: SiteId) -> ColumnElement[Any]:
    """An id as a literal: the server reads it as the type of what it is compared with."""
    return bindparam("site", str(site_id), type_=NullType())


class iso_instant(FunctionElement[datetime]):
    """A call of our function, by the name of the schema that our tables are in.

    It gives a stamp as an instant; NULL for a text that is none. Never raises.
    """

    name = "iso_instant"
    type = DateTime(timezone=True)
    inherit_cache = True


@compiles(iso_instant)
def _call(call: iso_instant, compiler: SQLCompiler, **options: Any) -> str:
    schema = f"{compiler.preparer.quote(tables.schema)}." if tables.schema else ""
    return f"{schema}{call.name}{compiler.process(call.clause_expr, **options)}"


def sql_name(named: Table | str) -> str:
    """A name as SQL writes it: in quotes where it needs them, a table with its schema."""
    # With the driver's own style of parameters, a `%` would be written twice.
    preparer = dialect(paramstyle="named").identifier_preparer  # type: ignore[no-untyped-call]
    if isinstance(named, Table):
        return str(preparer.format_table(named))
    return str(preparer.quote(named))


terminal_failures = Table(
    "terminal_failures",
    tables,
    Column("id", Uuid, primary_key=True),
    Column("site_id", Text, nullable=False),
    Column("domain", Text),
    Column("attempt", Text, nullable=False),
    Column("failed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    Column("source", Text, nullable=False),
    Column("flow_run_id", Uuid),
    Column("by_person", Boolean, nullable=False, server_default=text("false")),
    Column("note", Text),
    Column("marked_again", Integer, nullable=False, server_default=text("0")),
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
        ForeignKey(terminal_failures.c.id, name="notices_failure"),
        nullable=False,
    ),
    Column("kind", Text, nullable=False),
    Column("url", Text),
    Column("secret", Text),
    Column("receiver", Text),
    Column("body", LargeBinary, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("delivered_at", DateTime(timezone=True)),
    Column("given_up_at", DateTime(timezone=True)),
    Column("acknowledged_at", DateTime(timezone=True)),
    Column("last_error", Text),
    UniqueConstraint("failure_id", "kind", name="notices_failure_kind"),
    CheckConstraint("kind IN ('webhook', 'teardown')", name="notices_kind"),
    Index(
        "notices_owed",
        "next_attempt_at",
        postgresql_where=text("delivered_at IS NULL AND given_up_at IS NULL"),
    ),
    Index("notices_delivered", "delivered_at", postgresql_where=text("delivered_at IS NOT NULL")),
    Index("notices_given_up", "given_up_at", postgresql_where=text("given_up_at IS NOT NULL")),
)

sweep_refusals = Table(
    "sweep_refusals",
    tables,
    Column("flow_run_id", Uuid, primary_key=True),
    Column("refused_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("cap", Integer, nullable=False),
    Column("threshold", Interval, nullable=False),
    Column("stands", Boolean, nullable=False),
    Column("over_at", DateTime(timezone=True)),
    Column("candidates", JSONB, nullable=False),
    Index("sweep_refusals_refused_at", "refused_at"),
    Index("sweep_refusals_open", "refused_at", postgresql_where=text("over_at IS NULL")),
)

sweep_ends = Table(
    "sweep_ends",
    tables,
    Column("deployment", Text, primary_key=True),
    Column("flow_run_id", Uuid, nullable=False),
    Column("ended_at", DateTime(timezone=True), nullable=False),
    Column("state", Text, nullable=False),
)
