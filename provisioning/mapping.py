"""The platform's own names: its table of sites and the columns of it, read once a process."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

_NAME = r'(?:"(?:[^"\x00]|"")+"|[^\W\d][\w$]*)'
_WHOLE = re.compile(rf"\s*({_NAME})(?:\s*\.\s*({_NAME}))?\s*")
_LONGEST = 63
"""Bytes of the longest name in PostgreSQL, which cuts what is longer."""


def parts(text: str) -> tuple[str, ...]:
    """A name as SQL writes it, `schema.table` or `name`, as the names that PostgreSQL makes of it.

    Raises:
        ValueError: it is no such name.
    """
    match = _WHOLE.fullmatch(text)
    if not match:
        raise ValueError(
            'not a name as SQL writes it: name, schema.table, or in quotes: "My Schema"."My Table"'
        )
    found = tuple(_bare(part) for part in match.groups() if part is not None)
    for name in found:
        if len(name.encode()) > _LONGEST:
            raise ValueError(f"longer than the {_LONGEST} bytes that PostgreSQL keeps of a name")
    return found


def _bare(part: str) -> str:
    """Without quotes as it stands; otherwise in lower case, as PostgreSQL reads it."""
    if part.startswith('"'):
        return part[1:-1].replace('""', '"')
    return re.sub("[A-Z]", lambda letter: letter[0].lower(), part)


def _name(text: str) -> str:
    found = parts(text)
    if len(found) > 1:
        raise ValueError("a name alone is wanted here, without a dot outside quotes")
    return found[0]


def _table(text: str) -> str:
    parts(text)
    return text


class Mapping(BaseSettings):
    """The names of the platform's table, as the environment gives them.

    Read as SQL reads a name: in lower case, unless it stands in double quotes.
    """

    model_config = SettingsConfigDict(
        env_prefix="PROVISION_", hide_input_in_errors=True, env_ignore_empty=True
    )

    sites_table: Annotated[
        str,
        AfterValidator(_table),
        Field(description="The platform's table of sites: table, or schema.table"),
    ] = "sites"
    sites_id: Annotated[
        str, AfterValidator(_name), Field(description="Its column of ids: integer, uuid or text")
    ] = "id"
    sites_domain: Annotated[
        str, AfterValidator(_name), Field(description="Its column of domains")
    ] = "domain"
    sites_metadata: Annotated[
        str, AfterValidator(_name), Field(description="Its column of stamps, of type jsonb")
    ] = "metadata"
    sites_deleted_at: Annotated[
        Annotated[str, AfterValidator(_name)] | None,
        Field(description="Its column whose value, where it is not null, means a deleted row"),
    ] = None
    own_schema: Annotated[
        Annotated[str, AfterValidator(_name)] | None,
        Field(
            validation_alias="PROVISION_SCHEMA",
            description="The schema of our own tables; that of the platform's table by default",
        ),
    ] = None

    @property
    def table(self) -> str:
        """The name of the platform's table, without its schema."""
        return parts(self.sites_table)[-1]

    @property
    def table_schema(self) -> str | None:
        """The schema of the platform's table; None where the search path decides."""
        return parts(self.sites_table)[0] if len(parts(self.sites_table)) > 1 else None

    @property
    def schema_of_ours(self) -> str | None:
        """The schema of our own tables; None where the search path decides."""
        return self.own_schema or self.table_schema


def read_mapping() -> Mapping:
    """The names of this process.

    Unusable ones are no error here, where modules are still being imported: `settings()`, which
    every run asks before it connects, names each of them.
    """
    try:
        return Mapping()
    except ValidationError:
        return Mapping.model_construct()


MAPPING = read_mapping()
