"""The other end of the wire: what asks brokers.

`from barnabas.client import Producer, Consumer, Admin` loads what is named and nothing else. All of them are for
asyncio; `barnabas.client.synchronous` has the same for scripts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import errors as errors
    from barnabas.client.admin import Admin as Admin
    from barnabas.client.consuming.consumer import Consumer as Consumer
    from barnabas.client.consuming.rebalance import ConsumerRebalanceListener as ConsumerRebalanceListener
    from barnabas.client.consuming.record_decoder import ConsumerBatch as ConsumerBatch
    from barnabas.client.consuming.record_decoder import ConsumerRecord as ConsumerRecord
    from barnabas.client.offsets import ConsumerGroupMetadata as ConsumerGroupMetadata
    from barnabas.client.offsets import OffsetAndMetadata as OffsetAndMetadata
    from barnabas.client.offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from barnabas.client.producing.outcomes import RecordMetadata as RecordMetadata
    from barnabas.client.producing.producer import Producer as Producer
    from barnabas.types import TopicPartition as TopicPartition

_WHERE = {
    "Admin": "barnabas.client.admin",
    "Consumer": "barnabas.client.consuming.consumer",
    "ConsumerBatch": "barnabas.client.consuming.record_decoder",
    "ConsumerGroupMetadata": "barnabas.client.offsets",
    "ConsumerRebalanceListener": "barnabas.client.consuming.rebalance",
    "ConsumerRecord": "barnabas.client.consuming.record_decoder",
    "OffsetAndMetadata": "barnabas.client.offsets",
    "OffsetAndTimestamp": "barnabas.client.offsets",
    "Producer": "barnabas.client.producing.producer",
    "RecordMetadata": "barnabas.client.producing.outcomes",
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
