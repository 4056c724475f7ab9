"""TLS is verified under the name that the URL gives, whatever address it leads to."""

import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provisioning.http.client import Answer, NoAnswer, Reply, _tls
from provisioning.outbox.sender import post
from tests.outbox.owing import Network
from tests.outbox.receivers import Receiver, receiving

PUBLIC = "93.184.215.14"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for merchant.example that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "merchant.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("merchant.example")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture
async def tls_receiver(certificate: Path, network: Network) -> AsyncIterator[Receiver]:
    """Stands in for both names, and has a certificate for one of them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with receiving(context) as receiver:
        network.names |= {"merchant.example": [PUBLIC], "other.example": [PUBLIC]}
        network.routes[PUBLIC] = receiver.port
        yield receiver


@pytest.fixture
def trusting(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The operator's SSL_CERT_FILE vouches for the receiver."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    _tls.cache_clear()
    yield
    _tls.cache_clear()


async def send(url: str) -> Reply:
    return await post(url, {}, b"{}", trusted=False)


@pytest.mark.usefixtures("trusting")
async def test_a_receiver_is_known_by_the_name_in_the_url(tls_receiver: Receiver) -> None:
    assert await send("https://merchant.example/hook") == Answer(204, None)
    assert tls_receiver.requests[0].headers["host"] == "merchant.example"


@pytest.mark.usefixtures("trusting")
async def test_a_name_with_a_dot_at_its_end_is_known_by_the_one_without(
    tls_receiver: Receiver, network: Network
) -> None:
    network.names["merchant.example."] = [PUBLIC]
    assert await send("https://merchant.example./hook") == Answer(204, None)


@pytest.mark.usefixtures("trusting")
async def test_a_certificate_for_another_name_is_refused(tls_receiver: Receiver) -> None:
    assert await send("https://other.example/hook") == NoAnswer(
        "no answer", "ConnectError, SSLCertVerificationError"
    )
    assert tls_receiver.requests == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(tls_receiver: Receiver) -> None:
    assert await send("https://merchant.example/hook") == NoAnswer(
        "no answer", "ConnectError, SSLCertVerificationError"
    )
    assert tls_receiver.requests == []
