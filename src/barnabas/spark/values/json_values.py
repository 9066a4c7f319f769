"""JSON values into an Arrow struct.

Whole batches go to Arrow's reader, each value within an array of one, so that what is no single JSON value shows as a
wrong count. Arrow crashes at a null that stands alone between objects, so a batch that could hold one is never given to
it: in JSON nothing follows a closing brace, outside of texts, but a comma, a closing bracket or another brace.
Always holds: both ways give the same. Does not know: records.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

Bulk = Callable[[pa.Array], pa.Array | None]  # None where the values must be taken one by one

_BEFORE, _AFTER = b'{"v":[', b"]}\n"
_SUSPICIOUS = r"\}\s*[^,\]}\s]"


def whole_batches(wanted: pa.DataType) -> Bulk:
    """A function that decodes a column."""
    readable = _readable(wanted)
    if readable is None:
        return lambda values: None
    explicit = pa.schema([("v", pa.list_(readable))])
    parse = pj.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore")

    def decode(values: pa.Array) -> pa.Array | None:
        if not len(values):
            return pa.nulls(0, wanted)
        filled = pc.fill_null(values, b"null")
        if pc.any(pc.match_substring_regex(filled, _SUSPICIOUS)).as_py():
            return None
        text = b"".join(pc.binary_join_element_wise(_BEFORE, filled, _AFTER, b"").to_pylist())
        try:
            filled.cast(pa.string())  # Arrow's reader does not look whether texts are UTF-8; this does
            read = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
            found = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=parse).column("v")
            lists = found.combine_chunks()
            if len(lists) != len(values) or not pc.all(pc.equal(pc.list_value_length(lists), 1)).as_py():
                return None
            return lists.flatten().cast(wanted)
        except pa.ArrowInvalid:
            return None

    return decode


def _readable(wanted: pa.DataType) -> pa.DataType | None:
    """The nearest type that Arrow's reader knows and that can be cast to the wanted one; None where there is none."""
    if pa.types.is_struct(wanted):
        fields = [(field.name, _readable(field.type)) for field in wanted]
        return None if any(each is None for _, each in fields) else pa.struct(fields)
    if pa.types.is_list(wanted):
        inner = _readable(wanted.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_date(wanted):
        return pa.string()
    simple = (
        pa.types.is_integer(wanted)
        or pa.types.is_floating(wanted)
        or pa.types.is_boolean(wanted)
        or pa.types.is_string(wanted)
        or pa.types.is_timestamp(wanted)
    )
    return wanted if simple else None


def one_by_one(wanted: pa.DataType) -> Callable[[bytes], Any]:
    """A function that decodes one value."""

    def decode(value: bytes) -> Any:
        try:
            return _fitting(json.loads(value, parse_float=_number), wanted, "value")
        except (RecursionError, UnicodeDecodeError):
            raise ValueError("it is no JSON") from None

    return decode


class _number(Decimal):
    """A number with a point, kept as it was written until its type is known."""


def _fitting(found: Any, wanted: pa.DataType, where: str) -> Any:
    """The value as Arrow takes it for a type; ValueError where it does not fit."""
    if found is None:
        return None
    if pa.types.is_struct(wanted) and isinstance(found, dict):
        return {field.name: _fitting(found.get(field.name), field.type, f"{where}.{field.name}") for field in wanted}
    if pa.types.is_list(wanted) and isinstance(found, list):
        return [_fitting(each, wanted.value_type, f"{where}[]") for each in found]
    if pa.types.is_map(wanted) and isinstance(found, dict):
        return [(key, _fitting(each, wanted.item_type, f"{where}.{key}")) for key, each in found.items()]
    fitting = _simple(found, wanted)
    if fitting is None:
        raise ValueError(f"{where} is {json.dumps(found, default=str)[:80]}, not {wanted}")
    return fitting


def _simple(found: Any, wanted: pa.DataType) -> Any:
    """None where it does not fit."""
    is_whole = isinstance(found, int) and not isinstance(found, bool)
    if pa.types.is_boolean(wanted):
        return found if isinstance(found, bool) else None
    if pa.types.is_integer(wanted):
        limit = 1 << (wanted.bit_width - 1)
        return found if is_whole and -limit <= found < limit else None
    if pa.types.is_floating(wanted):
        return float(found) if is_whole or isinstance(found, _number | float) else None
    if pa.types.is_string(wanted):
        return found if isinstance(found, str) else None
    if pa.types.is_binary(wanted):
        return found.encode() if isinstance(found, str) else None
    if pa.types.is_decimal(wanted) and (is_whole or isinstance(found, _number | str)):
        return _decimal(found, wanted)
    if isinstance(found, str):
        return _moment(found, wanted)
    return None


def _decimal(found: Any, wanted: pa.DataType) -> Decimal | None:
    try:
        number = Decimal(found)
        fitting = number.quantize(Decimal(1).scaleb(-wanted.scale))
    except InvalidOperation:
        return None
    return fitting if fitting == number and fitting.adjusted() < wanted.precision - wanted.scale else None


def _moment(found: str, wanted: pa.DataType) -> Any:
    try:
        if pa.types.is_date(wanted):
            return date.fromisoformat(found)
        if pa.types.is_timestamp(wanted):
            moment = datetime.fromisoformat(found)
            if wanted.tz is None:
                return moment.replace(tzinfo=None) if moment.tzinfo is None else None
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except ValueError:
        return None
    return None
