"""The fields of records whose places are known, as Arrow columns.

Always holds: malformed records raise InvalidRecordBatch. A timestamp beyond what microseconds can say becomes the last
that they can. Does not know: which columns are wanted.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch
from barnabas.spark import schema
from barnabas.spark.binary_columns import binary_array, number_array
from barnabas.spark.record_headers import decode_headers
from barnabas.spark.record_places import Bytes, Int64s, Places, read_varints

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


class BatchNumbers:
    """What the headers of batches say, and what that makes of the deltas of their records. `batches` has the number of
    its batch for each record."""

    def __init__(self, headers: Sequence[BatchHeader]) -> None:
        self._base_offsets = np.array([each.base_offset for each in headers], np.int64)
        self._base_timestamps_ms = np.array([each.base_timestamp_ms for each in headers], np.int64)
        self._max_timestamps_ms = np.array([each.max_timestamp_ms for each in headers], np.int64)
        self._append_time = np.array([each.is_log_append_time for each in headers], np.bool_)

    def offsets(self, batches: Int64s, deltas: Int64s) -> Int64s:
        return self._base_offsets[batches] + deltas

    def timestamps(self, batches: Int64s, deltas_ms: Int64s) -> pa.Array:
        found = self._base_timestamps_ms[batches] + deltas_ms
        if self._append_time.any():
            found = np.where(self._append_time[batches], self._max_timestamps_ms[batches], found)
        micros = np.clip(found, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX) * 1000
        return number_array(micros, schema.ARROW_TYPES[schema.TIMESTAMP])

    def timestamp_types(self, batches: Int64s) -> pa.Array:
        return number_array(self._append_time.astype(np.int32)[batches], pa.int32())


class PlacedFields:
    """Fields that are read one after the other, each for all records at once."""

    def __init__(self, view: Bytes, places: Places, numbers: BatchNumbers, data: bytes) -> None:
        self._data = data
        self._places = places
        self._numbers = numbers
        self._timestamp_deltas_ms, position = read_varints(view, places.bodies + 1)
        offset_deltas, position = read_varints(view, position)
        self.offsets = numbers.offsets(places.pieces, offset_deltas)
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
        return self._numbers.timestamps(self._places.pieces, self._timestamp_deltas_ms)

    def timestamp_types(self) -> pa.Array:
        return self._numbers.timestamp_types(self._places.pieces)

    def headers(self) -> pa.Array:
        return pa.nulls(len(self.offsets), schema.HEADERS_TYPE) if self._headers is None else self._headers
