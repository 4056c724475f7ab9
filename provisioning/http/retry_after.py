"""When a server wants to be asked again."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER = timedelta(hours=24)


def retry_after(header: str | None, now: datetime) -> timedelta:
    """A Retry-After header, in seconds or as an HTTP date, as a wait from `now`.

    Zero if there is none or it can't be read; never longer than a day.
    """
    text = (header or "").strip()
    try:
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text), LONGEST_RETRY_AFTER.total_seconds()))
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return timedelta(0)
    moment = date.replace(tzinfo=UTC) if date.tzinfo is None else date
    return min(max(moment - now, timedelta(0)), LONGEST_RETRY_AFTER)
