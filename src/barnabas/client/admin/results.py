"""What became of a call about several things: each was done, or failed with its own error.

Always holds: every thing that was asked about is in exactly one of the two. Does not know: what the things are.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from barnabas.client.errors import KafkaError, error_of
from barnabas.errors import ErrorCode

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")


@dataclass(slots=True)
class Results(Generic[K, V]):
    done: dict[K, V] = field(default_factory=dict)
    failed: dict[K, KafkaError] = field(default_factory=dict)

    def unwrap(self) -> dict[K, V]:
        """What was done, where all of it was; else the first error is raised."""
        for error in self.failed.values():
            raise error
        return self.done

    def one(self, key: K) -> V:
        """What became of one thing, for who asked about no other."""
        if key in self.failed:
            raise self.failed[key]
        return self.done[key]

    def map(self, change: Callable[[V], W]) -> "Results[K, W]":
        return Results({key: change(value) for key, value in self.done.items()}, dict(self.failed))

    def add(self, key: K, code: int, value: V, message: str | None = None, *, about: str = "") -> None:
        """As an answer on the wire tells it: a code, and a value that counts where the code is NONE."""
        if code == ErrorCode.NONE:
            self.done[key] = value
        else:
            self.failed[key] = error_of(code, message, about=about)

    def merge(self, other: "Results[K, V]") -> None:
        self.done.update(other.done)
        self.failed.update(other.failed)

    def in_order_of(self, keys: Iterable[K]) -> "Results[K, V]":
        """As they were asked about: brokers answer in an order of their own."""
        asked = list(keys)
        return Results(
            {key: self.done[key] for key in asked if key in self.done},
            {key: self.failed[key] for key in asked if key in self.failed},
        )


def failed_all(keys: Iterable[K], error: KafkaError) -> "Results[K, Any]":
    return Results({}, dict.fromkeys(keys, error))
