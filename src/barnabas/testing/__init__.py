"""Real brokers inside tests: `Kafka` as a context manager, and the fixture `kafka` of the pytest plugin.

Importing this costs nothing: brokers are imported when the first one starts.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.kafka import Fault, Kafka, unique

__all__ = ["Fault", "Kafka", "unique"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from barnabas.testing import kafka

    return getattr(kafka, name)
