"""Every API of Kafka's protocol by key: its versions, its form, and where its messages are.

Imports no message before it is asked for: a broker that never sees an API never loads it.
Always holds: the facts come from `definitions/`, apart from the few that Kafka keeps in its code: those are named here.
Does not know: which APIs this broker serves (that is the table of handlers).
"""

from importlib import import_module
from typing import Final, NamedTuple

from barnabas.protocol.message import NEVER_FLEXIBLE, Message
from barnabas.protocol.messages._table import ROWS, ApiKey

__all__ = [
    "ADVERTISED_WITH_TELEMETRY_ONLY",
    "Api",
    "ApiKey",
    "advertised_versions",
    "api",
    "flexible_from",
    "request_class",
    "response_class",
]

# Kafka 4 cannot read Produce below version 3, yet says 0 in ApiVersions: librdkafka sends no compressed batches to a
# broker that lacks version 0 (KAFKA-18659). A request below version 3 is refused all the same.
_PRODUCE_MIN_VERSION_ADVERTISED: Final = 0

# Kafka leaves these out of ApiVersions where no receiver of client metrics is configured, as by default (KIP-714).
ADVERTISED_WITH_TELEMETRY_ONLY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


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
    row = ROWS[key]
    return Api(ApiKey(key), *row)


def advertised_versions(key: int, *, unstable: bool = False) -> tuple[int, int]:
    """The first and the last version that a broker names in ApiVersions; KeyError where Kafka has no such API.

    `unstable` is for brokers that serve what Kafka has not released too."""
    facts = api(key)
    first = _PRODUCE_MIN_VERSION_ADVERTISED if key == ApiKey.PRODUCE else facts.min_version
    return first, facts.max_version if unstable else facts.max_stable_version


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
