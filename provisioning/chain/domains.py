"""Domains as a chain uses them: one spelling for each host name."""

import re
import unicodedata

import idna

from provisioning.errors import BadDomain
from provisioning.text import one_line

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?!\d+\Z){_LABEL}\Z")


def host_name(domain: str) -> str:
    """The host name that a site's domain stands for: in lower case, ASCII, without a last dot.

    Names beyond ASCII become their `xn--` form, by UTS 46; the names that it refuses although they
    are registered and work, such as those with emoji, by the older RFC 3490.

    Raises:
        BadDomain: it is none, for instance empty, an address, or with a line break in it.
    """
    name = _ascii(domain).removesuffix(".")
    if not _HOST_NAME.match(name):
        shown = repr(one_line(domain)) if domain.strip() else "missing"
        raise BadDomain(f"the domain of the site is no host name: {shown}")
    return name


def same_host(one: str, other: str) -> bool:
    """Whether two domains stand for one host name. One that stands for none equals no other."""
    try:
        return host_name(one) == host_name(other)
    except BadDomain:
        return False


def _ascii(domain: str) -> str:
    if domain.isascii():
        return domain.lower()
    try:
        return idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        if any(unicodedata.category(character)[0] == "C" for character in domain):
            return ""  # what can't be seen, such as a bidirectional override
    try:
        return domain.encode("idna").decode().lower()
    except UnicodeError:
        return ""
