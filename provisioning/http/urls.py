"""URLs to send to. Each is a secret: path, query and user part may hold a token."""

import re

import httpx

from provisioning.text import one_line

_HOST = re.compile(rb"[A-Za-z0-9._-]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")
"""A name or an address. What httpx has to escape is neither, and may be a part of a secret."""


def parsed(url: str) -> httpx.URL | None:
    """The URL, where it is one of http or https with a host."""
    try:
        target = httpx.URL(url.strip())
    except (httpx.InvalidURL, UnicodeError):
        return None
    port_exists = target.port is None or 0 < target.port < 65536
    host_exists = _HOST.fullmatch(target.raw_host) is not None
    return target if target.scheme in ("http", "https") and host_exists and port_exists else None


def origin(target: httpx.URL) -> str:
    """Its scheme and its host: all of it that may be shown."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return one_line(f"{target.scheme}://{host}", 300)


def shown(url: str) -> str:
    """The origin of what ought to be a URL, and nothing at all of what is none."""
    target = parsed(url)
    return origin(target) if target else "(malformed URL)"
