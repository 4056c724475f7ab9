"""What the doctor says of the settings: keys, the teardown's address, what is for trials only."""

import base64

import anyio

from provisioning.cli.checks import Check, ok, warning, wrong
from provisioning.http.urls import parsed, shown
from provisioning.settings import Settings, revealed

FEWEST_BYTES = 12
"""Different bytes of a key of 24, which a random one has but for one time in many millions."""

CONNECT_SECONDS = 5.0


def check_keys(config: Settings) -> list[Check]:
    """What is signed, and with what."""
    found = [
        *_unsigned(config),
        *_weak(config),
        *_shared(config),
    ]
    if config.webhook_allow_private_networks:
        found.append(
            "PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS is true: merchants' URLs may lead into your "
            "own network. It is for trials only: unset it."
        )
    return [warning("keys", finding) for finding in found] or [
        ok("keys", "Webhooks and teardowns are signed, each with keys of their own.")
    ]


def _unsigned(config: Settings) -> list[str]:
    return [
        *(
            [
                "Webhooks of sites without a key of their own are sent unsigned: set "
                "PROVISION_WEBHOOK_SECRET."
            ]
            if config.webhook_secret is None
            else []
        ),
        *(
            ["Teardowns are sent unsigned: set PROVISION_TEARDOWN_SECRET, a key of its own."]
            if config.teardown_url and config.teardown_secret is None
            else []
        ),
    ]


def _weak(config: Settings) -> list[str]:
    return [
        f"{name} has a key of few different bytes, which somebody may guess. Make a random one: "
        "`openssl rand -base64 32`, with whsec_ before it."
        for name, words in _words(config).items()
        if any(len(set(_bytes(word))) < FEWEST_BYTES for word in words)
    ]


def _shared(config: Settings) -> list[str]:
    webhooks, teardowns = _words(config).values()
    if {_bytes(word) for word in webhooks} & {_bytes(word) for word in teardowns}:
        return [
            "PROVISION_WEBHOOK_SECRET and PROVISION_TEARDOWN_SECRET share a key: every merchant "
            "who verifies with it can forge a teardown. Give teardowns a key of their own."
        ]
    return []


def _words(config: Settings) -> dict[str, list[str]]:
    return {
        "PROVISION_WEBHOOK_SECRET": (revealed(config.webhook_secret) or "").split(),
        "PROVISION_TEARDOWN_SECRET": (revealed(config.teardown_secret) or "").split(),
    }


def _bytes(word: str) -> bytes:
    """The bytes of a key, whichever prefix it has."""
    text = word.removeprefix("whsec_").removeprefix("whsk_")
    return base64.b64decode(text + "=" * (-len(text) % 4))


async def check_teardown_address(config: Settings) -> Check:
    """Whether somebody listens where teardowns go, or at the proxy before it. Sends nothing."""
    address = revealed(config.teardown_url)
    target = parsed(address or "")
    if target is None or address is None:
        return warning(
            "teardowns",
            "PROVISION_TEARDOWN_URL is not set: what a failed attempt made stays where it is.",
        )
    reached, name = target, f"The teardown's receiver {shown(address)}"
    proxy = revealed(config.egress_proxy)
    through = parsed(proxy) if proxy else None
    if proxy and through:
        reached, name = through, f"The proxy {shown(proxy)}, through which teardowns go,"
    port = reached.port or (443 if reached.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            stream = await anyio.connect_tcp(reached.raw_host.decode(), port)
            await stream.aclose()
    except (OSError, TimeoutError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else type(error).__name__
        return wrong(
            "teardowns",
            f"{name} can't be connected to on port {port} ({why}): teardowns stay owed and runs "
            "end Incomplete. Check the address and the network.",
        )
    if target.scheme == "http":
        return warning(
            "teardowns", f"{name} is reached without TLS: use https unless the network is yours."
        )
    return ok("teardowns", f"{name} can be connected to.")
