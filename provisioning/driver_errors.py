"""What the driver and the server say, in our own words.

Their messages print rows, SQL parameters and URLs, and the code of a platform's triggers says what
it likes. So each becomes one of the sentences below. Names are added where the server itself put
them in, and nothing of DETAIL, CONTEXT or HINT ever is.
"""

import re
from typing import NamedTuple

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from provisioning.errors import LOCKED, DatabaseError
from provisioning.text import one_line

POOLER = (
    "A connection pooler stands before this database: set PROVISION_DATABASE_POOLED=true, or point "
    "PROVISION_DATABASE_URL at the server itself."
)

_TRANSIENT_CLASSES = ("08", "40", "53", "57P", LOCKED)
"""SQLSTATE: connection lost, transaction rolled back, out of resources, server going or coming."""

_SPEAKS_OF_OBJECTS = ("25006", "42501", "42703", "42704", "42710", "42883", "42P", "53", "57P")
"""SQLSTATE: the server's own sentence names objects and itself, and never a value."""


class _Failure(NamedTuple):
    """A way in which a connection fails, by what the driver, the server or a pooler says of it."""

    said: str
    means: str
    passes: bool


_URL = "PROVISION_DATABASE_URL"

_NO_CONNECTION = [
    _Failure(r"unsupported startup parameter", f"the connection was refused. {POOLER}", False),
    _Failure(
        r"starting up|shutting down|not yet accepting|in recovery mode",
        "the database server is starting or stopping.",
        True,
    ),
    _Failure(
        r"too many (clients|connections)|connection slots|no more connections allowed",
        "the database server takes no more connections. Look at pg_stat_activity and at "
        "max_connections.",
        True,
    ),
    _Failure(
        r"[Tt]emporary failure in name resolution",
        "the name of the database's host could not be looked up: the name server did not answer.",
        True,
    ),
    _Failure(
        r"failed to resolve host|could not translate host name",
        f"the name of the database's host does not exist. Check the host in {_URL}.",
        False,
    ),
    _Failure(
        r"authentication failed|no password supplied|auth failed|[Nn]o such user|"
        r"role .* does not exist|not permitted to log in",
        f"the database server refused the user or the password of {_URL}.",
        False,
    ),
    _Failure(
        r'database ".*" does not exist|[Nn]o such database',
        f"the database server has no database of that name. Check the end of {_URL}.",
        False,
    ),
    _Failure(
        r"does not support SSL",
        f"the database server offers no TLS, and `sslmode` in {_URL} asks for it.",
        False,
    ),
    _Failure(
        r"certificate",
        "the certificate of the database server, or the one shown to it, was not accepted. Check "
        f"`sslmode`, `sslrootcert` and `sslcert` in {_URL}.",
        False,
    ),
    _Failure(
        r"no encryption|SSL off|SSL required|only accepts SSL",
        f"the database server lets this user in only with TLS. Set sslmode=require in {_URL}, or "
        "let this address in (pg_hba.conf).",
        False,
    ),
    _Failure(
        r"pg_hba\.conf|CONNECT privilege|permission denied for database",
        "the database server does not let this user into this database from this address. Look at "
        "pg_hba.conf and at GRANT CONNECT.",
        False,
    ),
    _Failure(
        r"invalid .* value|invalid connection option|invalid port number",
        f"a connection option of {_URL} or of the PG… environment has a value that can't be used.",
        False,
    ),
    _Failure(
        r"session is (not )?read-only|hot standby mode",
        f"none of the hosts in {_URL} is what its `target_session_attrs` asks for.",
        True,
    ),
    _Failure(
        r"Connection refused|No such file or directory",
        f"nobody listens at the host and the port of {_URL}. Check that the database server runs.",
        True,
    ),
    _Failure(
        r"time(d )?out",
        f"the host of {_URL} did not answer. Check the address, the firewall and the server.",
        True,
    ),
]
"""The first that fits is told, so those that only a person can mend come before those that pass."""


def connection_failure(error: Exception) -> DatabaseError:
    """Why there is no connection, and whether trying again can help."""
    if isinstance(error, DatabaseError):
        return error
    if isinstance(error, PoolTimeout):
        return DatabaseError("all database connections of this run stay in use.", transient=True)
    said = str(_driver_error(error))
    for failure in _NO_CONNECTION:
        if re.search(failure.said, said):
            return DatabaseError(failure.means, transient=failure.passes)
    return DatabaseError(
        f"the connection to the database failed. Check that it runs, and that {_URL} is right; the "
        "server's log may say more.",
        transient=isinstance(_driver_error(error), psycopg.OperationalError),
    )


def statement_failure(error: Exception) -> DatabaseError:
    """Why a statement failed, and whether trying again can help."""
    driver = _driver_error(error)
    code = driver.sqlstate if isinstance(driver, psycopg.Error) else None
    if isinstance(error, TimeoutError):
        return DatabaseError("the database stopped answering.", transient=True)
    if code is not None and isinstance(driver, psycopg.Error):
        words = _answer(code, driver.diag)
        return DatabaseError(words, code, transient=code.startswith(_TRANSIENT_CLASSES))
    if isinstance(driver, psycopg.OperationalError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        return DatabaseError("the connection to the database was lost.", transient=True)
    return DatabaseError(
        f"what was sent to the database or came back could not be read ({type(driver).__name__})."
    )


def _driver_error(error: Exception) -> BaseException:
    return (error.orig or error) if isinstance(error, DBAPIError) else error


def _answer(code: str, diag: psycopg.errors.Diagnostic) -> str:
    match code:
        case "57014":
            return (
                "a statement was cancelled, most likely by its time limit. Look for locks on the "
                "table of sites and for load on the server."
            )
        case "55P03":
            return (
                "somebody holds a lock, such as an ALTER TABLE or a long transaction. Look at "
                "pg_locks; the next sweep tries again."
            )
        case "42501":
            return (
                f"the database refused it{_servers_words(code, diag)}. Grant the rights that the "
                "README lists."
            )
        case "26000" | "42P05":
            return f"the database lost a prepared statement (error {code}). {POOLER}"
        case _ if code.startswith("23"):
            return f"a constraint of the database refused it (error {code}{_names(diag)})."
        case _ if _from_its_code(diag):
            return (
                f"code in the database, such as a trigger, raised error {code}. Its words are in "
                "the server's log."
            )
        case _:
            return f"the database answered with error {code}{_servers_words(code, diag)}."


def _from_its_code(diag: psycopg.errors.Diagnostic) -> bool:
    """Whether a function, a trigger or another language raised it, and so chose its words."""
    return bool(diag.context) or (diag.source_file or "").startswith("pl")


def _servers_words(code: str, diag: psycopg.errors.Diagnostic) -> str:
    if _from_its_code(diag) or not code.startswith(_SPEAKS_OF_OBJECTS):
        return ""
    return f" ({one_line(diag.message_primary, 200)})"


def _names(diag: psycopg.errors.Diagnostic) -> str:
    if _from_its_code(diag):
        return ", raised by code in it"
    names = {
        "constraint": diag.constraint_name,
        "table": diag.table_name,
        "column": diag.column_name,
    }
    return "".join(f", {kind} {one_line(name)}" for kind, name in names.items() if name)
