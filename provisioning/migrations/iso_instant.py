"""The SQL function that reads a stamp, for the queries, the writes and the index alike.

Read are the forms of ISO 8601, RFC 3339 and RFC 9557 that databases and languages print for a date
and time, from the year 2000 on; the README lists them. A stamp is read exactly or not at all:

- The pattern proves the calendar, so the cast can't raise. A second of 60 and an hour of 24 are
  not read: no instant of PostgreSQL is theirs alone.
- The cast gets year, month, day, clock and a numeric offset, which mean the same under every
  DateStyle, TimeZone and file of abbreviations. That makes IMMUTABLE true.
- Of a fraction the first six digits count. The start is before a cutoff, which has whole
  microseconds, exactly if the start without its nanoseconds is.
- An offset decides, whatever name of a zone follows it. No clock on earth is 15 hours off, so such
  an offset is a fault of the writer. A suffix that is marked as critical, `[!u-ca=hebrew]`, must
  not be ignored (RFC 9557, section 3.3), and this function understands none.
- The years before 2000 are the zero times of Go, .NET and Unix.

The text holds no backslash, no percent sign and no colon before a letter or a digit except in
`::`: no `standard_conforming_strings`, and no parser of placeholders, takes it for something else.
"""

_DATE = (
    "(2[0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|(2[0-9](0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)"
)
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"

# The last part is for the crate `time` of Rust, which prints the seconds of an offset.
_OFFSET = "[+-](0[0-9]|1[0-4])([0-5][0-9]|:[0-5][0-9](:[0]{2})?)?"

# RFC 9557: a zone, then tags. With a colon in the zone, for Java's `[UTC+01:00]`.
_SUFFIX = "([[][A-Za-z0-9._+:/-]+[]])?([[][a-z_][a-z0-9_-]*=[A-Za-z0-9-]+[]])*"

# Go's Time.String(): `+0100 CET`, `-0300 -03`, and the monotonic clock as `m=+0.000012345`.
_GO = " ([A-Za-z]{3,5}|[+-][0-9]{2}([0-9]{2})?)( m=[+-][0-9]+[.][0-9]+)?"

_STAMP = f"^{_DATE}[Tt ]{_CLOCK}([Zz]{_SUFFIX}| UTC| ?{_OFFSET}({_SUFFIX}|{_GO}))?$"

LONGEST = 255
"""Bytes of the longest stamp that is read: nobody waits for a pattern on a text of megabytes."""

BODY = f"""
DECLARE
  rest text;
  zone text;
BEGIN
  IF octet_length(t) > {LONGEST} OR t COLLATE "C" !~ '{_STAMP}' THEN
    RETURN NULL;
  END IF;
  rest := ltrim(substr(t, 17), '0123456789:.,');
  zone := split_part(translate(ltrim(rest), '[', ' '), ' ', 1);
  RETURN (
    left(t, 10) || ' '
    || translate(left(substr(t, 12, length(t) - 11 - length(rest)), 15), ',', '.')
    || CASE WHEN left(zone, 1) IN ('+', '-') THEN zone ELSE '+00' END
  )::timestamptz;
END
"""


def create_iso_instant(name: str) -> str:
    """The statement that creates the function. It gives NULL for a text that is no stamp.

    Args:
        name: the function's name as SQL, with its schema where that is not in the search path.
    """
    return (
        f"CREATE FUNCTION {name}(t text) RETURNS timestamptz\n"
        "LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 500 SET search_path = pg_catalog\n"
        f"AS $f${BODY}$f$"
    )
