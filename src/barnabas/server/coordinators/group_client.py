"""Who asks the group coordinator, in the form in which groups remember it."""

from functools import lru_cache

from barnabas.groups.outcome import Client
from barnabas.server.context import RequestContext


def client_of(context: RequestContext) -> Client:
    return Client(context.api_version, context.client_id or "", java_address(context.peer_address[0]))


@lru_cache(maxsize=1_024)
def java_address(host: str) -> str:
    """As Java writes an address without a name: tools show it, and records keep it."""
    if ":" not in host:
        return f"/{host}"
    from ipaddress import IPv6Address

    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
