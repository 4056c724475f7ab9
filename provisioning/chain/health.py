"""Whether a new site answers, asked the way its first visitor would."""

from provisioning.errors import NotYet
from provisioning.http.client import Answer, ask
from provisioning.http.urls import parsed

CALL_SECONDS = 20.0
"""For one question, from looking up the name to the head of the answer."""

PLACE = "{domain}"
"""Stands for the site's domain in PROVISION_HEALTH_URL."""


async def require_healthy(template: str, domain: str, *, proxy: str | None = None) -> None:
    """Let a site pass that answers with success or a redirect, which is not followed.

    A host that comes from the site's domain is a merchant's, so it must lead to public addresses; a
    host that the operator wrote into the template may lead anywhere.

    Raises:
        NotYet: it does not answer so, or not yet: names and certificates take their time.
    """
    url = template.replace(PLACE, domain)
    reply = await ask(
        "GET",
        url,
        trusted=_host(url)
        == _host(template.replace(PLACE, "a"))
        == _host(template.replace(PLACE, "b")),
        seconds=CALL_SECONDS,
        proxy=proxy,
    )
    if not isinstance(reply, Answer):
        raise NotYet(f"the site does not answer: {reply}")
    if not 200 <= reply.status < 400:
        raise NotYet(f"the site answers {reply.status}")


def _host(url: str) -> bytes | None:
    target = parsed(url)
    return target.raw_host if target else None
