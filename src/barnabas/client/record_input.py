"""Records as applications give them: each part of them checked; keys and values as bytes.

Always holds: what is of the wrong type raises TypeError with what to write instead. What passes can be encoded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import index
from typing import Any

from barnabas.client.errors import error_of
from barnabas.client.producing.accumulator import RECORD_OVERHEAD_BYTES
from barnabas.config.validation import LONG_MAX
from barnabas.errors import ErrorCode
from barnabas.protocol.record_batch import Header

Headers = Sequence[Header] | Mapping[str, bytes | None]
Serializer = Callable[[Any], bytes | None]


def check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"the topic must be text, not {type(topic).__name__}")
    if not topic:
        raise error_of(ErrorCode.INVALID_TOPIC_EXCEPTION)


def as_number(given: Any, what: str) -> int:
    try:
        return index(given)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {type(given).__name__}") from None


def as_timestamp_ms(given: Any) -> int:
    timestamp_ms = as_number(given, "timestamp_ms")
    if not 0 <= timestamp_ms <= LONG_MAX:
        raise ValueError(f"timestamp_ms={timestamp_ms} is no time of a record; milliseconds since 1970 are wanted")
    return timestamp_ms


def as_bytes(data: Any, what: str) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    hint = f"; write {what}.encode(), or set {what}_serializer" if isinstance(data, str) else ""
    raise TypeError(f"{what} must be bytes or None, not {type(data).__name__}{hint}")


def as_headers(headers: Headers) -> tuple[list[Header], int]:
    """As pairs, and how many bytes they take."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    size = 0
    for pair in pairs:
        if len(pair) != 2:
            raise TypeError(f"a header must be a pair of a name and bytes, not {pair!r}")
        name, value = pair
        for part, types, words in ((name, str, "its name text"), (value, bytes | None, "its value bytes or None")):
            if not isinstance(part, types):
                raise TypeError(f"header {name!r}: {part!r} of type {type(part).__name__} is not allowed; {words}")
        size += 4 + len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
    return pairs, size


def as_column(given: Iterable[Any], what: str, serialize: Serializer | None) -> list[bytes | None]:
    column = [serialize(each) for each in given] if serialize is not None else list(given)
    if set(map(type, column)) - {bytes, type(None)}:
        return [None if each is None else as_bytes(each, what) for each in column]
    return column


def ends_of(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> Sequence[int]:
    """By record: how many bytes it and all before it take."""
    sizes: list[int] | None = None
    if None not in values:
        lengths = list(map(len, values))  # type: ignore[arg-type]
        if keys is None:
            if lengths and lengths.count(lengths[0]) == len(lengths):
                step = RECORD_OVERHEAD_BYTES + lengths[0]
                return range(step, step * (len(lengths) + 1), step)
            sizes = [RECORD_OVERHEAD_BYTES + length for length in lengths]
    if sizes is None:
        sizes = [
            RECORD_OVERHEAD_BYTES + len(value or b"") + len((keys[place] if keys is not None else None) or b"")
            for place, value in enumerate(values)
        ]
    return list(accumulate(sizes))
