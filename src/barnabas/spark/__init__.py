"""Spark's way to the log: the data source `barnabas` for batch and streaming reads and writes.

Nothing is imported before it is used: Spark looks into this package in every session.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.spark.reading.lag import Lag, LagListener

__all__ = ["Lag", "LagListener"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from barnabas.spark.reading import lag

        return getattr(lag, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
