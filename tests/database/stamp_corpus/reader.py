"""A second reader of stamps: all it shares with the SQL function is the words of the design.

It walks along the text, takes no pattern, and leaves the calendar to `datetime`.
"""

from datetime import UTC, datetime, timedelta, timezone
from string import ascii_letters, digits

LETTERS = ascii_letters
OFFSETS = ("00:00:00", "00:00", "0000", "00")
ZONE_CHARACTERS = LETTERS + digits + "._+:/-"
KEY_CHARACTERS = LETTERS[:26] + digits + "_-"
VALUE_CHARACTERS = LETTERS + digits + "-"


def read(text: str) -> datetime | None:
    """The instant of a stamp, without its nanoseconds; None where it is none of the forms."""
    if len(text.encode()) > 255 or not fits(text[:16], "0000-00-00 00:00", free={10: "Tt "}):
        return None
    second, microsecond, rest = 0, 0, text[16:]
    if rest.startswith(":"):
        if not fits(rest[:3], ":00"):
            return None
        second, rest = int(rest[1:3]), rest[3:]
        if rest[:1] in {".", ","}:
            fraction = leading(rest[1:], digits)
            if not 1 <= len(fraction) <= 9:
                return None
            microsecond, rest = int(fraction.ljust(6, "0")[:6]), rest[1 + len(fraction) :]
    offset = zone(rest)
    if offset is None:
        return None
    year, month, day, hour, minute = (
        int(text[first:last]) for first, last in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16))
    )
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, timezone(offset))
    except ValueError:
        return None
    return local.astimezone(UTC) if 2000 <= year <= 2999 else None


def zone(rest: str) -> timedelta | None:
    """The offset that the end of a stamp states; None where it is no end of one."""
    if rest in {"", " UTC"}:
        return timedelta()
    if rest[:1] in {"Z", "z"}:
        return timedelta() if is_suffix(rest[1:]) else None
    rest = rest.removeprefix(" ")
    if rest[:1] not in {"+", "-"}:
        return None
    shape = next((shape for shape in OFFSETS if fits(rest[1 : 1 + len(shape)], shape)), None)
    if shape is None:
        return None
    stated, end = rest[1 : 1 + len(shape)].replace(":", ""), rest[1 + len(shape) :]
    hours, minutes, seconds = int(stated[:2]), int(stated[2:4] or 0), int(stated[4:] or 0)
    if hours > 14 or minutes > 59 or seconds or not (is_suffix(end) or is_go(end)):
        return None
    return timedelta(hours=hours, minutes=minutes) * (1 if rest[0] == "+" else -1)


def is_suffix(end: str) -> bool:
    """RFC 9557: a zone in brackets, then tags in brackets, none of them critical."""
    if not end:
        return True
    if not (end.startswith("[") and end.endswith("]")):
        return False
    first, *others = end[1:-1].split("][")
    return (consists(first, ZONE_CHARACTERS) or is_tag(first)) and all(map(is_tag, others))


def is_tag(inner: str) -> bool:
    key, equals, value = inner.partition("=")
    return (
        bool(equals)
        and consists(key[:1], LETTERS[:26] + "_")
        and consists(key, KEY_CHARACTERS)
        and consists(value, VALUE_CHARACTERS)
    )


def is_go(end: str) -> bool:
    """The name of the zone, and the reading of the monotonic clock, as Go's String() gives them."""
    name, clock, reading = end.removeprefix(" ").partition(" m=")
    if not end.startswith(" "):
        return False
    if clock:
        whole, point, part = reading[1:].partition(".")
        if reading[:1] not in {"+", "-"} or not point:
            return False
        if not (consists(whole, digits) and consists(part, digits)):
            return False
    return (consists(name, LETTERS) and 3 <= len(name) <= 5) or (
        name[:1] in {"+", "-"} and len(name) in {3, 5} and consists(name[1:], digits)
    )


def fits(text: str, shape: str, free: dict[int, str] | None = None) -> bool:
    """Whether a text has a digit at each 0 of a shape, and the shape's own character elsewhere."""
    allowed = [digits if character == "0" else character for character in shape]
    for place, characters in (free or {}).items():
        allowed[place] = characters
    return len(text) == len(shape) and all(map(str.__contains__, allowed, text))


def consists(text: str, of: str) -> bool:
    return text != "" and all(character in of for character in text)


def leading(text: str, of: str) -> str:
    return text[: len(text) - len(text.lstrip(of))]
