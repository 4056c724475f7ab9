"""Statements as text, with the platform's own names in them, which may hold any character."""

from typing import Any

from sqlalchemy import ColumnElement, Connection


def run(connection: Connection, statement: str) -> None:
    """Run a statement exactly as it is written: neither `%` nor `:` is the start of a parameter."""
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def as_text(connection: Connection, expression: ColumnElement[Any]) -> str:
    """An expression of ours for such a statement, with its values in it."""
    options = {"include_table": False, "literal_binds": True}
    compiled = str(expression.compile(dialect=connection.dialect, compile_kwargs=options))
    return compiled.replace("%%", "%")  # doubled for a driver that looks for parameters
