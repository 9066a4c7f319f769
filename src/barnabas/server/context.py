"""What a handler may know about the request it serves, apart from the message itself."""

from enum import Enum

from barnabas.runtime.interfaces import Address


class ListenerKind(Enum):
    """Who is expected to call there, and hence which APIs are served."""

    BROKERS = "clients and brokers"
    CONTROLLERS = "controllers"


class RequestContext:
    """One request's surroundings. Plain and slotted, for one is made for every request; and made by position, for seven
    names would triple what that costs."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "listener", "local_address", "peer_address")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        listener: ListenerKind,
        local_address: Address,
        peer_address: Address,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.local_address = local_address  # the address that the client dialled
        self.peer_address = peer_address


class CloseConnection(Exception):
    """The only answer left is to hang up: for instance, a write without acknowledgement has failed."""
