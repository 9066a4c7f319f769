"""Addresses as settings write them: `NAME://host:port`, `id@host:port` and `host:port`.

An empty host means every interface. An IPv6 host stands in brackets. Port 0 means any free one, which is known once the
listener is bound; what is told to others has that one instead.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.config.setting import Notation

WILDCARD_HOSTS = ("", "0.0.0.0", "::")  # every address of this machine: fit to listen on, not to dial


class Endpoint(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`."""

    listener_name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener_name}://{_bracketed(self.host)}:{self.port}"


class Voter(NamedTuple):
    """One entry of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{_bracketed(self.host)}:{self.port}"


class Server(NamedTuple):
    """One entry of `controller.quorum.bootstrap.servers`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


def told(named: Iterable[Endpoint], bound: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints that others are told, in the order of `bound`: those that the settings name, with real ports.

    A listener that is bound and not named is told to nobody.
    """
    by_name = {each.listener_name: each for each in named}
    found = []
    for each in bound:
        endpoint = by_name.get(each.listener_name)
        if endpoint is not None:
            found.append(endpoint._replace(host=endpoint.host or each.host, port=endpoint.port or each.port))
    return tuple(found)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _host_and_port(text: str, where: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{where} must end with a port between 0 and 65535")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError(f"{where} must have its IPv6 address in brackets")
    return host, int(port)


def _decode_endpoint(text: str) -> Endpoint:
    name, separator, address = text.partition("://")
    if not separator or not name:
        raise ValueError(f"{text!r} must have the form NAME://host:port")
    return Endpoint(name.upper(), *_host_and_port(address, repr(text)))


def _decode_endpoints(texts: tuple[str, ...]) -> tuple[Endpoint, ...]:
    endpoints = tuple(_decode_endpoint(text) for text in texts)
    if len({endpoint.listener_name for endpoint in endpoints}) < len(endpoints):
        raise ValueError("each listener must have a name of its own")
    return endpoints


def _decode_voter(text: str) -> Voter:
    node_id, separator, address = text.partition("@")
    if not separator or not (node_id.isascii() and node_id.isdigit()):
        raise ValueError(f"{text!r} must have the form id@host:port")
    return Voter(int(node_id), *_host_and_port(address, repr(text)))


def _decode_protocol_map(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon or protocol.upper() not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ValueError(f"{part!r} must be a listener's name, a colon and a security protocol")
        if name.upper() in protocols:
            raise ValueError(f"{name.upper()} is there twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def _encode_protocol_map(protocols: Mapping[str, str]) -> str:
    return ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def _encode_all(values: tuple[NamedTuple, ...]) -> str:
    return ",".join(str(value) for value in values)


ENDPOINTS = Notation(_decode_endpoints, _encode_all)
VOTERS = Notation(lambda texts: tuple(_decode_voter(text) for text in texts), _encode_all)
SERVERS = Notation(lambda texts: tuple(Server(*_host_and_port(text, repr(text))) for text in texts), _encode_all)
PROTOCOL_MAP = Notation(_decode_protocol_map, _encode_protocol_map)
UPPER_CASE = Notation(lambda texts: tuple(text.upper() for text in texts), ",".join)
