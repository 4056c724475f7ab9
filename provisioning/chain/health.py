"""Whether a new site answers, asked the way its first visitor would."""

import asyncio

import httpx
from httpx_secure import httpx_ssrf_protection

from provisioning.errors import NotYet
from provisioning.http.addresses import is_public

CALL_SECONDS = 20.0
"""For one question, from looking up the name to the head of the answer."""

PLACE = "{domain}"
"""Stands for the site's domain in PROVISION_HEALTH_URL."""


async def require_healthy(template: str, domain: str) -> None:
    """Let a site pass that answers with success or a redirect, which is not followed.

    A host that comes from the site's domain is a merchant's, so it must lead to public addresses; a
    host that the operator wrote into the template may lead anywhere.

    Raises:
        NotYet: it does not answer so, or not yet: names and certificates take their time.
    """
    url = httpx.URL(template.replace(PLACE, domain))
    try:
        async with (
            asyncio.timeout(CALL_SECONDS),
            httpx.AsyncClient(timeout=CALL_SECONDS, trust_env=False) as http,
        ):
            if httpx.URL(template.replace(PLACE, "")).host != url.host:
                httpx_ssrf_protection(http, custom_validator=lambda _host, ip, _port: is_public(ip))
            async with http.stream("GET", url) as response:
                status = response.status_code
    except (TimeoutError, httpx.HTTPError) as error:
        raise NotYet(f"the site does not answer ({type(error).__name__})") from None
    if not 200 <= status < 400:
        raise NotYet(f"the site answers {status}")
