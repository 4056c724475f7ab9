"""The bounds and the formats under which every statement of ours runs.

Databases, roles and clients have settings of their own that change how long a statement may wait
and how values are written, so all that matters here is set here.
"""

STATEMENT_TIMEOUT = 30
"""Seconds for one statement; longer is a query that lost its index or a server in trouble."""

LOCK_TIMEOUT = "500ms"
"""How long a statement waits for a lock: then the site is `busy`, or the step is tried again."""

SESSION = {
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "off",  # a policy that hides rows makes a query fail instead
    "statement_timeout": f"{STATEMENT_TIMEOUT}s",
    "lock_timeout": LOCK_TIMEOUT,
    "idle_in_transaction_session_timeout": f"{STATEMENT_TIMEOUT}s",
}
"""Written as the server shows them: a sweep asks for them, and says which it finds changed."""

_OF_A_SESSION = {
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
}


def as_options() -> str:
    """The session's settings, for the `options` with which a connection begins."""
    return " ".join(
        f"-c {name}={value.replace(' ', chr(92) + ' ')}"
        for name, value in (SESSION | _OF_A_SESSION).items()
    )


def as_statement() -> str:
    """The same as one statement, for the length of a transaction alone."""
    calls = (f"set_config('{name}', '{value}', true)" for name, value in SESSION.items())
    return f"SELECT {', '.join(calls)}"
