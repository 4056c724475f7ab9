"""Who can verify what, and who can forge nothing: G20 and G21."""

import asyncio
import base64
import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from provisioning.outbox.signing import keys, signature
from tests.outbox.owing import SECRET, TEARDOWN_SECRET, Owing, config
from tests.outbox.receivers import Receiver, Request

FIRST = 3_000_000_001


def shared(text: str) -> str:
    return "whsec_" + base64.b64encode(text.encode().ljust(32, b".")).decode()


def pair() -> tuple[str, Ed25519PrivateKey]:
    key = Ed25519PrivateKey.generate()
    return "whsk_" + base64.b64encode(key.private_bytes_raw()).decode(), key


def accepts(key: str, request: Request) -> bool:
    try:
        Webhook(key).verify(request.body, request.headers)
    except WebhookVerificationError:
        return False
    return True


@pytest.mark.guarantee(
    fault="a merchant that signs with the key it verifies with (G20)",
    holds="it can forge nothing that another merchant or the platform accepts",
    guard="with one key for all, the teardown endpoint accepts a teardown that a merchant signed",
)
async def test_g20_each_receiver_has_a_key_that_no_other_receiver_knows(
    owing: Owing, receiver: Receiver, platform: Receiver
) -> None:
    owing.config = config(teardown_url=platform.url("/teardown"))
    own = shared("one merchant's")
    await owing.fail(FIRST, receiver.url("/own"), key=own, teardown=True)
    await owing.fail(FIRST + 1, receiver.url("/shared"))
    await owing.sweep()
    known = {"own": own, "shared": SECRET, "teardown": TEARDOWN_SECRET}
    by_target = {request.target: request for request in receiver.requests + platform.requests}
    assert {
        target: [name for name, key in known.items() if accepts(key, request)]
        for target, request in by_target.items()
    } == {"/own": ["own"], "/shared": ["shared"], "/teardown": ["teardown"]}


async def test_without_a_key_of_its_own_a_teardown_is_never_signed_with_a_merchants(
    owing: Owing, platform: Receiver
) -> None:
    owing.config = config(teardown_url=platform.url()).model_copy(update={"teardown_secret": None})
    await owing.fail(FIRST, None, key=shared("one merchant's"), teardown=True)
    await owing.sweep()
    assert "webhook-signature" not in platform.requests[0].headers


@pytest.mark.parametrize("key", ["t0ken", "whsec_dGVzdA==", "whsk_dGVzdA==", 17, {"a": 1}, True])
async def test_a_sites_unusable_key_gives_its_notice_up_and_nothing_is_sent(
    owing: Owing, receiver: Receiver, key: Any
) -> None:
    await owing.fail(FIRST, receiver.url(), key=key)
    assert (await owing.sweep()).given_up_now == 1
    notice = await owing.notice(FIRST)
    assert notice.last_error.startswith("provision.webhook_secret is no signing key: ")
    assert "t0ken" not in notice.last_error
    assert receiver.requests == []


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_a_blank_key_is_none(owing: Owing, receiver: Receiver, key: str | None) -> None:
    await owing.fail(FIRST, receiver.url(), key=key)
    await owing.sweep()
    assert accepts(SECRET, receiver.requests[0])


@pytest.mark.guarantee(
    fault="the signing key is replaced while retries of three days are under way (G21)",
    holds="while both are set, a receiver with either accepts the notice",
    guard="with one signature, the receiver with the other key refuses it",
)
async def test_g21_a_rotation_has_two_signatures(owing: Owing, receiver: Receiver) -> None:
    new, ours = pair()
    owing.config = config(secret=f"{new} {SECRET}")
    await owing.fail(FIRST, receiver.url())
    await owing.sweep()
    (request,) = receiver.requests
    assert accepts(SECRET, request)
    assert verified_by(ours, request)
    versions = [part.split(",")[0] for part in request.headers["webhook-signature"].split(" ")]
    assert versions == ["v1a", "v1"]


def verified_by(key: Ed25519PrivateKey, request: Request) -> bool:
    """As a receiver does that was given the public key."""
    content = f"{request.notice_id}.{request.headers['webhook-timestamp']}.".encode() + request.body
    for part in request.headers["webhook-signature"].split(" "):
        version, _, value = part.partition(",")
        if version == "v1a":
            try:
                key.public_key().verify(base64.b64decode(value), content)
            except InvalidSignature:
                continue
            return True
    return False


async def test_an_ed25519_key_may_come_with_its_public_half(
    owing: Owing, receiver: Receiver
) -> None:
    seed, key = pair()
    whole = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    assert seed
    await owing.fail(FIRST, receiver.url(), key="whsk_" + base64.b64encode(whole).decode())
    await owing.sweep()
    assert verified_by(key, receiver.requests[0])
    assert not verified_by(pair()[1], receiver.requests[0])


async def test_keys_and_urls_are_kept_no_longer_than_they_are_used(
    owing: Owing, receiver: Receiver
) -> None:
    await owing.fail(FIRST, receiver.url("/t0ken"), key=shared("one merchant's"))
    await owing.fail(FIRST + 1, "https://[t0ken/", key=shared("another's"))
    await owing.sweep()
    kept = await owing.sites.rows("SELECT url, secret, receiver FROM notices ORDER BY receiver")
    assert [tuple(row) for row in kept] == [
        (None, None, "(malformed URL)"),
        (None, None, "http://127.0.0.1"),
    ]


@given(st.text(max_size=200))
def test_no_text_is_half_a_key_or_shown(text: str) -> None:
    try:
        found, said = len(keys(text)), ""
    except ValueError as error:
        found, said = len(text.split()), str(error)
    assert found == len(text.split())
    assert len(text) < 3 or text not in said


@given(st.binary(min_size=24, max_size=64), st.text(max_size=40))
def test_every_key_of_the_specifications_length_signs_as_its_own_library_does(
    key: bytes, body: str
) -> None:
    moment = datetime(2025, 1, 15, 15, 30, tzinfo=UTC)
    text = body.encode("utf-8", "replace").decode()
    ours = signature(
        keys("whsec_" + base64.b64encode(key).decode()),
        "msg_1",
        str(int(moment.timestamp())),
        text.encode(),
    )
    assert ours == Webhook(key).sign("msg_1", moment, text)


VERIFY = """
const { Webhook } = require("standardwebhooks");
const crypto = require("crypto");
const [key, spki, headers, body] = JSON.parse(require("fs").readFileSync(0, "utf8"));
new Webhook(key).verify(body, headers);
const content = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
const signed = headers["webhook-signature"].split(" ").find((part) => part.startsWith("v1a,"));
const der = { key: Buffer.from(spki, "base64"), format: "der", type: "spki" };
const given = crypto.createPublicKey(der);
if (!crypto.verify(null, Buffer.from(content), given, Buffer.from(signed.slice(4), "base64"))) {
  throw new Error("v1a");
}
console.log("accepted");
"""


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the specification's JavaScript library."""
    folder = tmp_path_factory.mktemp("javascript")
    npm = shutil.which("npm")
    if not (npm and shutil.which("node")):
        pytest.skip("node and npm are not on this machine")
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--fetch-retries=0",
        "--prefix",
        str(folder),
    ]
    try:
        done = subprocess.run(
            [*command, "standardwebhooks@1.0.0"], capture_output=True, timeout=100, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm reaches no registry")
    if done.returncode:
        pytest.skip("npm could not install standardwebhooks")
    return folder


async def test_the_javascript_library_accepts_it(
    owing: Owing, receiver: Receiver, javascript: Path
) -> None:
    private, key = pair()
    owing.config = config(secret=f"{SECRET} {private}")
    await owing.fail(FIRST, receiver.url(), domain="bücher-日本.example")
    await owing.sweep()
    (request,) = receiver.requests
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    done = await asyncio.to_thread(
        subprocess.run,
        ["node", "-e", VERIFY],
        input=json.dumps(
            [SECRET, base64.b64encode(public).decode(), request.headers, request.body.decode()]
        ).encode(),
        cwd=javascript,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"accepted\n", done.stderr.decode()
