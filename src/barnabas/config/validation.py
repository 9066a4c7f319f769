"""What a value may be, as a check with its words.

The words serve both the error message and the reference in the documentation, so that they cannot differ.
"""

from collections.abc import Callable
from typing import Any, Final

# The largest values of Kafka's types of the same names, where they mean «without limit».
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class ConfigError(ValueError):
    """A setting that is unknown, malformed or out of range. The message names the setting and what is allowed."""


class OutOfRange(ConfigError):
    """The value has the right type but is not allowed."""


class Allowed:
    __slots__ = ("accepts", "words")

    def __init__(self, accepts: Callable[[Any], bool], words: str) -> None:
        self.accepts: Final = accepts
        self.words: Final = words  # completes the sentence «it must be …»


def at_least(least: float) -> Allowed:
    return Allowed(lambda value: value >= least, f"at least {least}")


def between(least: float, most: float) -> Allowed:
    return Allowed(lambda value: least <= value <= most, f"between {least} and {most}")


def between_or(least: int, most: int, other: int) -> Allowed:
    return Allowed(lambda value: least <= value <= most or value == other, f"between {least} and {most}, or {other}")


def one_of(*names: str) -> Allowed:
    return Allowed(lambda value: value in names, f"one of {', '.join(names)}")


def some_of(*names: str) -> Allowed:
    """For lists: only these names. An empty list is fine."""
    return Allowed(lambda values: all(value in names for value in values), f"a list of {', '.join(names)}")


def one_or_more_of(*names: str) -> Allowed:
    return Allowed(
        lambda values: len(values) > 0 and all(value in names for value in values),
        f"a list of one or more of {', '.join(names)}",
    )


def at_most_one() -> Allowed:
    return Allowed(lambda values: len(values) <= 1, "a list of one entry")


def not_zero() -> Allowed:
    return Allowed(lambda value: value != 0, "other than 0")


def throttled_replicas() -> Allowed:
    """Kafka's list for replication throttles."""

    def accepts(values: tuple[str, ...]) -> bool:
        return values == ("*",) or all(_is_replica(value) for value in values)

    return Allowed(accepts, "* or a list of partition:broker")


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and partition.isdecimal() and broker.isdecimal()
