"""Signatures of the Standard Webhooks specification, one for each key.

`whsec_` is a key that both sides share, `v1`; `whsk_` a private ed25519 key, `v1a`, whose public
key can be given to everybody. https://github.com/standard-webhooks/standard-webhooks
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LONGEST_SECRET = 1_024
"""Characters: room for ten keys."""

SHORTEST_KEY, LONGEST_KEY = 24, 64
"""Bytes of a shared key, as the specification asks for."""

Sign = Callable[[bytes], str]

_PRIVATE, _SHARED = "whsk_", "whsec_"
_SEED = 32


def keys(secret: str) -> tuple[Sign, ...]:
    """The keys in a secret: one, or several with blanks between, for the time of a rotation.

    Raises:
        ValueError: one of them is no key, or there is none. The message shows nothing of it.
    """
    found = tuple(_key(word) for word in secret.split()) if len(secret) <= LONGEST_SECRET else ()
    if not found:
        raise ValueError("no signing key")
    return found


def signature(signers: tuple[Sign, ...], notice_id: str, timestamp: str, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    content = f"{notice_id}.{timestamp}.".encode() + body
    return " ".join(sign(content) for sign in signers)


def _key(word: str) -> Sign:
    if word.startswith(_PRIVATE):
        pair = _decoded(word.removeprefix(_PRIVATE))
        if len(pair) not in (_SEED, 2 * _SEED):
            raise ValueError("not an ed25519 key of 32 bytes, or 64 with its public half")
        private = Ed25519PrivateKey.from_private_bytes(pair[:_SEED])
        return lambda content: f"v1a,{_encoded(private.sign(content))}"
    shared = _decoded(word.removeprefix(_SHARED))
    if not SHORTEST_KEY <= len(shared) <= LONGEST_KEY:
        raise ValueError(f"not a key of {SHORTEST_KEY} to {LONGEST_KEY} bytes")
    return lambda content: f"v1,{_encoded(hmac.digest(shared, content, hashlib.sha256))}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
