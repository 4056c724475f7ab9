"""No part of a URL but its scheme and host, and no secret, leaves the process except as sent."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable

import pytest

from provisioning.errors import SettingsInvalid
from provisioning.http import client
from provisioning.http.urls import shown
from provisioning.outbox import sender
from provisioning.outbox.claims import claim
from provisioning.settings import Settings, settings
from tests.outbox.owing import SECRET, Owing, config
from tests.outbox.receivers import Receiver, Request, answering, hanging

TOKENS = ["t0ken-user", "t0ken-password", "t0ken-path", "t0ken-query", "t0ken-fragment"]
KEY = SECRET.removeprefix("whsec_")
WHSK = "whsk_" + base64.b64encode(bytes(32)).decode()


def secret_url(host: str) -> str:
    return f"http://t0ken-user:t0ken-password@{host}/t0ken-path?key=t0ken-query#t0ken-fragment"


def assert_no_secret(text: str) -> None:
    assert not [secret for secret in [*TOKENS, "t0ken", KEY] if secret in text]


async def garbage(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"this is no HTTP\r\n\r\n")


async def hanging_up(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(
    "behaviour", [answering(204), answering(302), answering(500), garbage, hanging_up, hanging]
)
async def test_no_secret_is_logged_stored_or_shown(
    owing: Owing,
    receiver: Receiver,
    behaviour: Callable[..., Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "DEADLINE", 0.5)
    for name in ("", "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    receiver.default = behaviour
    await owing.fail(1, secret_url(f"127.0.0.1:{receiver.port}"))
    deliveries = await owing.sweep()

    assert receiver.requests[0].target == "/t0ken-path?key=t0ken-query", "it was really sent there"
    assert "httpcore" in caplog.text
    assert_no_secret(caplog.text)
    assert_no_secret(f"{deliveries} {deliveries!r} {(await owing.notice(1)).last_error}")


@pytest.mark.parametrize(
    "url",
    [
        secret_url("127.0.0.1:1"),
        secret_url("nowhere.example"),
        secret_url("10.0.0.1"),
        "http://us:er:t0ken-password@/t0ken-path",
        "http://user:t0ken-password",
        "t0ken-path",
        "https:/t0ken-path",
        "http:\\\\user:t0ken-password@host",
        "http://host:t0ken-password@/x",
        "t0ken-user://x",
    ],
)
async def test_no_secret_in_the_reason_of_a_url_that_leads_nowhere(
    owing: Owing, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    owing.config = config(private="127.0.0.1" in url)
    await owing.fail(1, url)
    deliveries = await owing.sweep()
    error = (await owing.notice(1)).last_error
    assert error
    assert_no_secret(f"{shown(url)} {error} {deliveries!r} {caplog.text}")


async def test_no_secret_in_what_the_client_raises(
    owing: Owing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raising(*_: object) -> list[object]:
        raise RuntimeError(f"broke on {secret_url('merchant.example')}") from OSError("t0ken-path")

    monkeypatch.setattr(client, "resolve", raising)
    await owing.fail(1, secret_url("merchant.example"))
    assert_no_secret(repr(await owing.sweep()))
    error = (await owing.notice(1)).last_error
    assert error == "no answer (RuntimeError, OSError)"


async def test_what_holds_a_secret_does_not_show_it(owing: Owing) -> None:
    await owing.fail(1, secret_url("merchant.example"))
    assert_no_secret(repr(await claim(owing.engine, await owing.notice_id(1))))
    assert_no_secret(repr(config(teardown_url=secret_url("platform.example"))))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROVISION_WEBHOOK_SECRET", "t0ken-user"),
        ("PROVISION_WEBHOOK_SECRET", "whsec_t0ken user"),
        ("PROVISION_WEBHOOK_SECRET", "whsec_"),
        ("PROVISION_WEBHOOK_SECRET", "t0kén"),
        ("PROVISION_WEBHOOK_SECRET", "whsec_dDBrZW4tdXNlcg=="),
        ("PROVISION_WEBHOOK_SECRET", f"{SECRET} t0ken-user"),
        ("PROVISION_WEBHOOK_SECRET", "whsec_" + "A" * 88),
        ("PROVISION_WEBHOOK_SECRET", "whsk_" + "A" * 40),
        ("PROVISION_TEARDOWN_SECRET", "t0ken-user"),
        ("PROVISION_EGRESS_PROXY", "t0ken-user"),
        ("PROVISION_TEARDOWN_URL", "t0ken-path"),
        ("PROVISION_TEARDOWN_URL", "ftp://t0ken-user@host/"),
        ("PROVISION_TEARDOWN_URL", "http://host:t0ken-password@/"),
        ("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "t0ken"),
    ],
)
def test_an_unusable_setting_is_named_and_its_value_is_not(
    worker_environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    worker_environment.setenv(name, value)
    with pytest.raises(SettingsInvalid) as refused:
        settings()
    assert name in str(refused.value)
    assert_no_secret(str(refused.value))
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("secret", [SECRET, KEY, f"{SECRET} {KEY}", WHSK, f" {WHSK}\n{SECRET} "])
def test_a_usable_secret_is_taken(worker_environment: pytest.MonkeyPatch, secret: str) -> None:
    worker_environment.setenv("PROVISION_WEBHOOK_SECRET", secret)
    worker_environment.setenv("PROVISION_WEBHOOK_ALLOW_PRIVATE_NETWORKS", "true")
    config: Settings = settings()
    assert config.webhook_secret is not None
    assert config.webhook_secret.get_secret_value() == secret
    assert config.webhook_allow_private_networks
