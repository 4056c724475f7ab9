"""The second table: what a platform calls things when it calls nothing as we do.

With `TESTS_TABLE=shop` in the environment the tests run on it: names in quotes, with blanks, dots
and what drivers take for a parameter, uuids for ids, and rows that are deleted softly. The tests'
own SQL stays as it is: it finds the table through a view by the usual name, in a schema that the
program's connections have never heard of, so a name that the program forgets to map is found
nowhere.
"""

import os

NAMES = {
    "PROVISION_SITES_TABLE": '"Shop % Schema"."web ""50%s"" sites.v2"',
    "PROVISION_SITES_ID": '"100% Id"',
    "PROVISION_SITES_DOMAIN": '"Höst"',
    "PROVISION_SITES_METADATA": '"meta %(data)s"',
    "PROVISION_SITES_DELETED_AT": "gone_at",
    "PROVISION_SCHEMA": '"Reaper%%"',
}

DDL = """
CREATE SCHEMA "Shop % Schema";
CREATE SCHEMA "Reaper%%";
CREATE SCHEMA usual;
CREATE TABLE "Shop % Schema"."web ""50%s"" sites.v2" (
  id text DEFAULT 'not the id', "100% Id" uuid PRIMARY KEY, "Höst" varchar(300),
  metadata json DEFAULT '{"not": "the stamps"}', "meta %(data)s" jsonb, gone_at timestamptz);
CREATE VIEW usual.sites AS SELECT "100% Id" AS id, "Höst" AS domain, "meta %(data)s" AS metadata
  FROM "Shop % Schema"."web ""50%s"" sites.v2" WHERE gone_at IS NULL;
"""

SEARCH_PATH = '"Shop % Schema", usual, "Reaper%%", public'
"""Where the tests' own SQL looks for names."""


def chosen() -> bool:
    """Whether the tests run on it."""
    return os.environ.get("TESTS_TABLE") == "shop"
