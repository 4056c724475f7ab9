"""The address of the platform's database, as people have it, for the driver.

What is wrong with it is said without any part of it but the names of its options: a URL holds a
password, and one that can't be read may hold it anywhere.
"""

import re
from collections import Counter
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict

from provisioning.text import one_line

_SCHEME = re.compile(r"^postgres(ql)?(\+\w+)?://", re.IGNORECASE)
_OPTIONS = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} | {"ssl"}

LONGEST_SHOWN = 200
"""Characters of a database's name and hosts that are shown."""

_INSTEAD = {
    "pgbouncer": "set PROVISION_DATABASE_POOLED=true instead",
    "ssl": "PostgreSQL's name for it is sslmode",
}
"""What other programs call something that there is here."""


def parameters(url: str) -> dict[str, str]:
    """The connection parameters that a URL holds.

    Takes several hosts with ports, any driver's name in the scheme (`postgres://`,
    `postgresql+asyncpg://`), and a line break at the end.

    Raises:
        ValueError: what is wrong with it, in words that may be shown.
    """
    plain, schemes = _SCHEME.subn("postgresql://", url.strip(), count=1)
    if not schemes:
        raise ValueError("not a PostgreSQL URL (postgresql://user:password@host/database)")
    _require_encoded(plain)
    _require_known_options(plain.rpartition("@")[2].partition("?")[2])
    try:
        found = conninfo_to_dict(plain)
    except psycopg.Error:
        found = None
    if found is None or not re.fullmatch(r"[0-9,]*", str(found.get("port", ""))):
        raise ValueError(
            "not a URL that PostgreSQL can read: look at the host, the port and the options"
        )
    return {name: str(value) for name, value in found.items() if value is not None}


def shown(url: str) -> str:
    """The database that a URL leads to, for people: "shop on db.internal:5432".

    Several hosts stand there as they are given, and never a user, a password or an option.

    Raises:
        ValueError: what is wrong with it, in words that may be shown.
    """
    found = parameters(url)
    hosts = (found.get("host") or found.get("hostaddr", "")).split(",")
    ports = found.get("port", "").split(",")
    if len(ports) == 1:  # it is the port of each host
        ports *= len(hosts)
    places = [_place(host, port) for host, port in zip(hosts, ports, strict=False)]
    name = found.get("dbname") or "the default database"
    return one_line(f"{name} on {', '.join(places)}", LONGEST_SHOWN)


def _place(host: str, port: str) -> str:
    if host.startswith(("/", "@")):
        place = f"the socket {host}"
    else:
        place = f"[{host}]" if ":" in host else host or "the default host"
    return f"{place}:{port}" if port else place


def _require_encoded(url: str) -> None:
    """Refuse what makes a part of a password pass for a host, a database or an option."""
    authority, _, rest = url.removeprefix("postgresql://").partition("/")
    if (
        authority.count("@") > 1
        or "@" in rest
        or re.search(r"[\s\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})|%00", url)
    ):
        raise ValueError(
            "a character in it must be percent-encoded, most likely one in the password: "
            "@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25 and a blank is %20"
        )


def _require_known_options(query: str) -> None:
    names = Counter(name for name, _ in parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in names if name not in _OPTIONS]
    if unknown:
        hints = [_INSTEAD[name] for name in unknown if name in _INSTEAD]
        shown = [name if re.fullmatch(r"\w{1,40}", name, re.ASCII) else "…" for name in unknown]
        raise ValueError(
            f"PostgreSQL knows no connection option {' and no '.join(shown)}: take it out"
            + "".join(f"; {hint}" for hint in hints)
        )
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise ValueError(
            f"it has the option `{'` and `'.join(twice)}` more than once; several hosts are "
            "written host1:5432,host2:5432"
        )
