"""URLs to send to. Each is a secret: path, query and user part may hold a token."""

import re

import httpx
import idna

from provisioning.text import one_line

LONGEST_URL = 2_048
"""Characters. What is longer is no URL that a receiver gave, and is not worth its memory."""

_HOST = re.compile(rb"[A-Za-z0-9._-]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")
"""A name or an address. What httpx has to escape is neither, and may be a part of a secret."""

_BEFORE_AND_HOST = re.compile(r"(?P<before>https?://(?:[^/?#]*@)?)(?P<host>[^/?#@:\[\]]+)", re.I)


def parsed(url: str) -> httpx.URL | None:
    """The URL, if it is one of http or https with a host; None for everything else."""
    text = url.strip()
    if len(text) > LONGEST_URL:
        return None
    try:
        target = httpx.URL(_BEFORE_AND_HOST.sub(_in_ascii, text, count=1))
    except (httpx.InvalidURL, ValueError):
        return None
    port_exists = target.port is None or 0 < target.port < 65536
    host_exists = _HOST.fullmatch(target.raw_host) is not None
    return target if target.scheme in ("http", "https") and host_exists and port_exists else None


def origin(target: httpx.URL) -> str:
    """Its scheme and its host: all of it that may be shown."""
    try:
        host = target.host
    except UnicodeError:  # a name that exists all the same, such as xn--i-7iq.ws
        host = target.raw_host.decode()
    return one_line(f"{target.scheme}://{f'[{host}]' if ':' in host else host}", 300)


def shown(url: str) -> str:
    """The origin of what ought to be a URL, and nothing at all of what is none."""
    target = parsed(url)
    return origin(target) if target else "(malformed URL)"


def spellings(host: str) -> set[str]:
    """The forms in which a host that a person names may stand in a URL, or be shown."""
    target = parsed(f"http://{host}")
    known = {target.raw_host.decode(), origin(target).removeprefix("http://")} if target else set()
    return {host.strip().lower(), *known}


def _in_ascii(match: re.Match[str]) -> str:
    """The beginning of a URL with its host as DNS has it.

    By the rules of 2008 as browsers read them (UTS 46), and by those of 2003 for the names that
    only they allow and that are registered, such as emoji.
    """
    before, host = match["before"], match["host"]
    if host.isascii():
        return f"{before}{host}"
    try:
        return f"{before}{idna.encode(host, uts46=True).decode()}"
    except idna.IDNAError:
        return f"{before}{host.encode('idna').decode().lower()}"
