"""Every API of Kafka's protocol by key: its versions, its form, and where its messages are.

Imports no message before it is asked for: a broker that never sees an API never loads it.
Always holds: the facts come from `definitions/`, apart from the few that Kafka keeps in its code: those are named here.
Does not know: which APIs this broker serves (that is the table of handlers).
"""

from importlib import import_module
from typing import Final, NamedTuple

from barnabas.protocol.message import NEVER_FLEXIBLE, Message
from barnabas.protocol.messages._table import ROWS, ApiKey

__all__ = ["PRODUCE_MIN_VERSION_ADVERTISED", "Api", "ApiKey", "api", "flexible_from", "request_class", "response_class"]

# Kafka 4 cannot read Produce below version 3, yet says 0 in ApiVersions: librdkafka before 2.x would otherwise
# conclude that the broker speaks no record format that it knows (KIP-896).
PRODUCE_MIN_VERSION_ADVERTISED: Final = 0


class Api(NamedTuple):
    """`max_version < min_version` where Kafka has removed the API."""

    key: ApiKey
    name: str  # Kafka's name in snake_case, which is also the module under `messages`
    min_version: int
    max_version: int
    flexible_from: int
    latest_version_unstable: bool  # Kafka leaves out max_version unless told otherwise
    on_broker: bool
    on_controller: bool

    @property
    def max_stable_version(self) -> int:
        return self.max_version - self.latest_version_unstable

    @property
    def removed(self) -> bool:
        return self.max_version < self.min_version


_FLEXIBLE_FROM: Final = {key: row[3] for key, row in ROWS.items()}
_classes: dict[tuple[int, str], type[Message]] = {}


def api(key: int) -> Api:
    """KeyError where Kafka has no such API."""
    return Api(ApiKey(key), *ROWS[key])


def flexible_from(key: int) -> int:
    """The first version whose messages are flexible; above every version where none is, or where there is no API."""
    return _FLEXIBLE_FROM.get(key, NEVER_FLEXIBLE)


def request_class(key: int) -> type[Message]:
    return _class(key, "Request")


def response_class(key: int) -> type[Message]:
    return _class(key, "Response")


def _class(key: int, kind: str) -> type[Message]:
    found = _classes.get((key, kind))
    if found is None:
        module = ROWS[key][0]
        name = "".join(word.capitalize() for word in module.split("_")) + kind
        loaded = getattr(import_module(f"barnabas.protocol.messages.{module}"), name)
        assert issubclass(loaded, Message)
        found = _classes[key, kind] = loaded
    return found
