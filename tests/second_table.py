"""The second table: what a platform calls things when it calls nothing as we do.

With `TESTS_TABLE=shop` in the environment the tests run on it: other names, in quotes, of schemas
with blanks, uuids for ids, and rows that are deleted softly. The tests' own SQL stays as it is: it
finds the table through a view by the usual name, in a schema that the program's connections have
never heard of, so a name that the program forgets to map is found nowhere.
"""

import os

NAMES = {
    "PROVISION_SITES_TABLE": '"Shop Schema"."web sites"',
    "PROVISION_SITES_ID": '"site id"',
    "PROVISION_SITES_DOMAIN": '"Host"',
    "PROVISION_SITES_METADATA": '"meta data"',
    "PROVISION_SITES_DELETED_AT": "gone_at",
    "PROVISION_SCHEMA": '"Reaper"',
}

DDL = """
CREATE SCHEMA "Shop Schema";
CREATE SCHEMA "Reaper";
CREATE SCHEMA usual;
CREATE TABLE "Shop Schema"."web sites" (
  id text DEFAULT 'not the id', "site id" uuid PRIMARY KEY, "Host" varchar(300),
  metadata json DEFAULT '{"not": "the stamps"}', "meta data" jsonb, gone_at timestamptz);
CREATE VIEW usual.sites AS SELECT "site id" AS id, "Host" AS domain, "meta data" AS metadata
  FROM "Shop Schema"."web sites" WHERE gone_at IS NULL;
"""

SEARCH_PATH = '"Shop Schema", usual, "Reaper", public'
"""Where the tests' own SQL looks for names."""


def chosen() -> bool:
    """Whether the tests run on it."""
    return os.environ.get("TESTS_TABLE") == "shop"
