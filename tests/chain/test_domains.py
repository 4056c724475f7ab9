"""Domains: one spelling for each host name, and one sentence for what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.chain.domains import host_name, same_host
from provisioning.errors import BadDomain


@pytest.mark.parametrize(
    ("domain", "host"),
    [
        ("shop.example", "shop.example"),
        ("SHOP.Example.", "shop.example"),
        ("a-b.c_d.example", "a-b.c_d.example"),
        ("例え.jp", "xn--r8jz45g.jp"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--BCHER-kva.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("i❤.ws", "xn--i-7iq.ws"),
        ("xn--i-7iq.ws", "xn--i-7iq.ws"),
        ("🦄🦩.ws", "xn--3s9hkc.ws"),
        ("例え。jp", "xn--r8jz45g.jp"),
        ("exa\u00admple.com", "example.com"),
        ("1.2.3.example", "1.2.3.example"),
    ],
)
def test_a_host_name_has_one_spelling(domain: str, host: str) -> None:
    assert host_name(domain) == host
    assert same_host(domain, host.upper())


@pytest.mark.guarantee(
    fault="domains with line breaks, overrides, addresses or nothing in them",
    holds="one sentence of one line says so",
    guard=(
        "without the pattern 29 tests fail; without one_line the sentence has line breaks "
        "and 9,000 characters"
    ),
)
@pytest.mark.parametrize(
    "domain",
    [
        *("", " ", ".", "..", "\n", "\u200b"),
        *("shop.example\n", "shop\r\n.example", " shop.example", "shop .example", "a\tb.example"),
        *("shop\u202e.example", "shop\u2066.example", "shop\x00.example", "shop\ud800.example"),
        *("localhost", "2130706433", "127.0.0.1", "[::1]", "::1", "shop.1"),
        *("shop.example:80", "user@shop.example", "https://shop.example", "shop.example/x"),
        *("-shop.example", "shop-.example", "shop..example", f"{'a' * 64}.example"),
        *("*.example", "a.example,b.example", "{domain}", "a" * 9000 + ".example"),
        f"{'a.' * 130}example",
    ],
)
def test_what_is_no_host_name_is_told_in_one_line(domain: str) -> None:
    with pytest.raises(BadDomain, match=r"^the domain of the site is no host name: ") as caught:
        host_name(domain)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
    assert not same_host(domain, domain)


@given(st.text(max_size=80))
def test_any_text_is_a_host_name_or_is_refused(text: str) -> None:
    try:
        host = host_name(text)
    except BadDomain:
        return
    assert host.isascii()
    assert host == host.lower() == host_name(host)
    assert "." in host
