"""Which addresses an untrusted URL may reach.

A name is looked up once, all its addresses are judged, and the connection goes to one of those
very addresses: what a second look-up would say no longer matters.
"""

import socket
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from anyio import to_thread

from provisioning.errors import Unresolved

IPAddress = IPv4Address | IPv6Address

_NAT64 = ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ip_network("2000::/3")
_NOT_PUBLIC = [
    ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments; one cloud keeps its metadata there
        "192.88.99.0/24",  # 6to4 relays
        "168.63.129.16/32",  # Azure's own services inside a virtual machine
        "224.0.0.0/4",  # multicast
        "2001::/23",  # Teredo and other protocol assignments
        "2002::/16",  # 6to4, which embeds any IPv4 address
        "3fff::/20",  # documentation
    )
]
"""What Python's own tables count as global, in some release or in all of them, and is not."""


def is_public(address: IPAddress) -> bool:
    """Whether the address belongs to the open internet, whatever form it is written in.

    An IPv4 address behind NAT64 counts as itself. Every other way to wrap one in IPv6 (mapped,
    compatible, 6to4, Teredo) is refused: no receiver on the internet needs it.
    """
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return is_public(IPv4Address(address.packed[-4:]))
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


async def resolve(host: bytes, port: int) -> list[IPAddress]:
    """The addresses of a host name or of a literal address in any spelling, best first.

    Asked in a thread that is left behind when the caller's deadline passes, so that names whose
    servers hang take no place in a queue that others wait in.

    Raises:
        Unresolved: the name has no address.
    """
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await to_thread.run_sync(ask, abandon_on_cancel=True)
    except (OSError, UnicodeError):
        raise Unresolved from None
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))
