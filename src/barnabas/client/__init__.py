"""The other end of the wire: what asks brokers.

`from barnabas.client import Producer, Consumer, Admin` loads what is named and nothing else. All of them are for
asyncio; `barnabas.client.synchronous` has the same for scripts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import errors as errors
    from barnabas.client.admin import Admin as Admin
    from barnabas.client.producer import Producer as Producer
    from barnabas.client.producer import RecordMetadata as RecordMetadata
    from barnabas.types import TopicPartition as TopicPartition

_WHERE = {
    "Admin": "barnabas.client.admin",
    "Producer": "barnabas.client.producer",
    "RecordMetadata": "barnabas.client.producer",
    "TopicPartition": "barnabas.types",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("barnabas.client.errors")
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return [*_WHERE, "errors"]
