"""The fields of records whose places are known, as Arrow columns.

Always holds: malformed records raise InvalidRecordBatch. A timestamp beyond what microseconds can say becomes the last
that they can. Does not know: which columns are wanted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch
from barnabas.spark import schema
from barnabas.spark.arrow.binary_columns import binary_array, number_array
from barnabas.spark.arrow.record_headers import decode_headers
from barnabas.spark.arrow.record_places import Piece, find_records
from barnabas.spark.arrow.varints import Int64s, read_varints

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000

Integers = npt.NDArray[np.signedinteger[Any]]


class BatchNumbers:
    """What the headers of batches, each with so many records, make of the deltas of these records."""

    def __init__(self, headers: Sequence[BatchHeader], record_counts: Sequence[int]) -> None:
        self._headers = headers
        self._record_counts = record_counts

    def _of_each(self, numbers: Sequence[int]) -> Int64s:
        return np.repeat(np.array(numbers, np.int64), self._record_counts)

    def offsets(self, deltas: Integers) -> Int64s:
        return self._of_each([each.base_offset for each in self._headers]) + deltas

    def timestamps(self, deltas_ms: Integers) -> pa.Array:
        found = self._of_each([each.base_timestamp_ms for each in self._headers]) + deltas_ms
        by_broker = [each.is_log_append_time for each in self._headers]
        if any(by_broker):
            appended_ms = self._of_each([each.max_timestamp_ms for each in self._headers])
            found = np.where(self._of_each(by_broker), appended_ms, found)
        micros = np.clip(found, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX) * 1000
        return number_array(micros, schema.ARROW_TYPES[schema.TIMESTAMP])

    def timestamp_types(self) -> pa.Array:
        types = np.array([each.is_log_append_time for each in self._headers], np.int32)
        return number_array(np.repeat(types, self._record_counts), pa.int32())


class PlacedFields:
    """Fields that are read one after the other, each for all records at once."""

    def __init__(self, data: bytes, pieces: Sequence[Piece]) -> None:
        view = np.frombuffer(data, np.uint8)
        places = find_records(data, view, pieces)
        self._data = data
        self._places = places
        headers = [piece.header for piece in pieces]
        self._numbers = BatchNumbers(headers, [each.record_count for each in headers])
        self._timestamp_deltas_ms, position = read_varints(view, places.bodies + 1)
        offset_deltas, position = read_varints(view, position)
        self.offsets = self._numbers.offsets(offset_deltas)
        self._key_lengths, self._key_positions = read_varints(view, position)
        self._check(self._key_lengths, self._key_positions)
        self._value_lengths, self._value_positions = read_varints(
            view, self._key_positions + np.maximum(self._key_lengths, 0)
        )
        self._check(self._value_lengths, self._value_positions)
        counts, position = read_varints(view, self._value_positions + np.maximum(self._value_lengths, 0))
        self._headers: pa.Array | None = None
        if counts.any():
            self._headers = decode_headers(data, view, counts, position, places.ends)
        else:
            self._require(position == places.ends, "a record does not end where its length says")

    def _check(self, lengths: Int64s, positions: Int64s) -> None:
        self._require(
            (lengths >= -1) & (lengths <= self._places.ends - positions), "a field that its record cannot hold"
        )

    def _require(self, fine: npt.NDArray[np.bool_], problem: str) -> None:
        if not fine.all():
            number = int(fine.argmin())
            raise InvalidRecordBatch(f"{problem} (the record at offset {int(self.offsets[number])})")

    def keys(self) -> pa.Array:
        return binary_array(self._data, self._key_positions, self._key_lengths)

    def values(self) -> pa.Array:
        return binary_array(self._data, self._value_positions, self._value_lengths)

    def timestamps(self) -> pa.Array:
        return self._numbers.timestamps(self._timestamp_deltas_ms)

    def timestamp_types(self) -> pa.Array:
        return self._numbers.timestamp_types()

    def headers(self) -> pa.Array:
        return pa.nulls(len(self.offsets), schema.HEADERS_TYPE) if self._headers is None else self._headers
