"""Avro values: a schema's type for Spark, and values decoded by fastavro, with or without Confluent's framing.

    framing: 0 | schema id i32 | the value as the schema of that id wrote it

Without a registry values are bare and were written by the schema given. With one, each is read by the schema that wrote
it and resolved to the one given, or to the newest of the topic. Does not know: records, batches.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from struct import Struct
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from barnabas.config.validation import ConfigError
from barnabas.spark.values import schema_registry

MAGIC = 0
_FRAME = Struct(">bi")

_SIMPLE = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}
_UNSUPPORTED = ("time-millis", "time-micros", "duration")


def ddl(text: str) -> str:
    """The type of values for Spark."""
    parsed = parse(text)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ConfigError("valueSchema: the Avro schema of values must be a record")
    return _type(parsed)


def parse(text: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except (ValueError, KeyError, TypeError, SchemaParseException) as problem:
        raise ConfigError(f"valueSchema is no Avro schema: {problem}") from None


def _type(found: Any) -> str:
    """One Avro type in Spark's DDL."""
    if isinstance(found, list):
        return _type(_sole(found))
    if isinstance(found, str):
        return _simple(found)
    kind, logical = found["type"], found.get("logicalType")
    if logical == "decimal":
        return f"decimal({found['precision']},{found.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical in _UNSUPPORTED:
        raise ConfigError(f"valueSchema: {logical} has no column type")
    if kind == "record":
        fields = ", ".join(f"`{each['name']}`: {_type(each['type'])}" for each in found["fields"])
        return f"struct<{fields}>"
    if kind == "array":
        return f"array<{_type(found['items'])}>"
    if kind == "map":
        return f"map<string, {_type(found['values'])}>"
    return _type(kind)


def _sole(union: Sequence[Any]) -> Any:
    some = [each for each in union if each != "null"]
    if len(some) != 1:
        raise ConfigError(f"valueSchema: a union of {len(some)} types has no column type: {union}")
    return some[0]


def _simple(kind: str) -> str:
    if kind not in _SIMPLE:
        raise ConfigError(f"valueSchema: {kind!r} is no simple type; one used again by its name is not supported")
    return _SIMPLE[kind]


def _arrow_form(found: Any) -> Callable[[Any], Any] | None:
    """What turns fastavro's value of a type into Arrow's; None where they are the same."""
    if isinstance(found, list):
        return _arrow_form(_sole(found))
    if isinstance(found, str):
        return None
    kind, logical = found["type"], found.get("logicalType")
    if logical == "uuid":
        return str
    if kind == "record":
        fields = {each["name"]: form for each in found["fields"] if (form := _arrow_form(each["type"])) is not None}
        return _record_form(fields) if fields else None
    if kind == "array" and (form := _arrow_form(found["items"])) is not None:
        inner = _unless_null(form)
        return lambda values: [inner(each) for each in values]
    if kind == "map":
        inner = _unless_null(_arrow_form(found["values"]) or (lambda value: value))
        return lambda pairs: [(key, inner(each)) for key, each in pairs.items()]
    return None if isinstance(kind, str) else _arrow_form(kind)


def _record_form(fields: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def form(record: dict[str, Any]) -> dict[str, Any]:
        for name, each in fields.items():
            if record.get(name) is not None:
                record[name] = each(record[name])
        return record

    return form


def _unless_null(form: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else form(value)


def one_by_one(text: str, registry_url: str | None) -> Callable[[bytes], Any]:
    """A function that decodes one value, to the schema given."""
    reader = parse(text)
    form = _arrow_form(reader)
    writers: dict[int, Any] = {}

    def writer_of(schema_id: int) -> Any:
        if schema_id not in writers:
            assert registry_url is not None
            writers[schema_id] = parse(schema_registry.schema_of_id(registry_url, schema_id))
        return writers[schema_id]

    def decode(value: bytes) -> Any:
        start, writer = 0, reader
        if registry_url is not None:
            if len(value) < _FRAME.size or value[0] != MAGIC:
                raise ValueError("it does not begin with the id of a schema")
            start, writer = _FRAME.size, writer_of(_FRAME.unpack_from(value)[1])
        stream = BytesIO(value)
        stream.seek(start)
        try:
            found = fastavro.schemaless_reader(stream, writer, reader)
        except ConfigError:
            raise
        except Exception as problem:  # fastavro meets bad bytes with whatever Python raises there
            raise ValueError(f"{type(problem).__name__}: {problem}") from None
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow it")
        return found if form is None else form(found)

    return decode
