"""URLs to send to. Each is a secret: path, query and user part may hold a token."""

import httpx

from provisioning.text import one_line


def parsed(url: str) -> httpx.URL | None:
    """The URL, where it is one of http or https with a host."""
    try:
        target = httpx.URL(url.strip())
    except (httpx.InvalidURL, UnicodeError):
        return None
    port_exists = target.port is None or 0 < target.port < 65536
    usable = target.scheme in ("http", "https") and target.raw_host and port_exists
    return target if usable else None


def origin(target: httpx.URL) -> str:
    """Its scheme and its host: all of it that may be shown."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return one_line(f"{target.scheme}://{host}", 300)


def shown(url: str) -> str:
    """The origin of what ought to be a URL, and nothing at all of what is none."""
    target = parsed(url)
    return origin(target) if target else "(malformed URL)"
