"""The columns of a read: those of Spark's own Kafka connector, as Spark's types and as Arrow's.

Always holds: both describe the same columns in the same order, in exactly the types that Spark's check of Arrow batches
accepts (no large and no view types). Does not know: where rows come from.
"""

from collections.abc import Sequence

import pyarrow as pa

from barnabas.config.validation import ConfigError
from barnabas.spark.options import Options

KEY, VALUE, TOPIC, PARTITION, OFFSET = "key", "value", "topic", "partition", "offset"
TIMESTAMP, TIMESTAMP_TYPE, HEADERS = "timestamp", "timestampType", "headers"

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
ARROW_TYPES: dict[str, pa.DataType] = {
    KEY: pa.binary(),
    VALUE: pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_TYPE: pa.int32(),
    HEADERS: HEADERS_TYPE,
}
DDL_TYPES = {
    KEY: "binary",
    VALUE: "binary",
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    TIMESTAMP: "timestamp",
    TIMESTAMP_TYPE: "int",
    HEADERS: "array<struct<key: string, value: binary>>",
}
NEVER_NULL = frozenset({TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE})  # Spark makes rows of them a tenth faster


def columns(options: Options) -> tuple[str, ...]:
    """Which columns this read has."""
    wanted: Sequence[str] = options["columns"]
    if not wanted:
        return tuple(name for name in ARROW_TYPES if name != HEADERS or options["includeHeaders"])
    by_lower = {name.lower(): name for name in ARROW_TYPES}
    found = [by_lower.get(name.lower()) for name in wanted]
    for name, column in zip(wanted, found, strict=True):
        if column is None:
            raise ConfigError(f"columns: {name!r} is not a column; there are {', '.join(ARROW_TYPES)}")
    if len(set(found)) != len(found):
        raise ConfigError(f"columns: {', '.join(wanted)} names a column twice")
    if options["includeHeaders"] and HEADERS not in found:
        raise ConfigError("includeHeaders is true, but columns does not name headers: drop one of the two")
    return tuple(column for column in found if column is not None)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[name], name not in NEVER_NULL) for name in names])


def spark_ddl(names: Sequence[str], value_ddl: str | None) -> str:
    """The columns as Spark's DDL. `value_ddl` is the type of the value's column where values are decoded."""
    types = {**DDL_TYPES, VALUE: value_ddl or DDL_TYPES[VALUE]}
    return ", ".join(f"{name} {types[name]}{' NOT NULL' if name in NEVER_NULL else ''}" for name in names)
