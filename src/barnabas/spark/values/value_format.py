"""Values decoded in the source: the column `value` becomes a struct, by a schema.

Owns the two formats' common side: which value of which record could not be decoded, and what becomes of it. A value
that is null stays null. JSON is read by Arrow for whole batches; only where a batch holds something that Arrow refuses,
or must not be given, are its values taken one by one.
Always holds: an error names topic, partition and offset; with valueErrors=null such a value is null and nothing else
changes. Does not know: where records come from.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from barnabas.config.validation import ConfigError
from barnabas.spark import schema
from barnabas.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# What an error names, beside the columns that are wanted.
NAMES = (schema.TOPIC, schema.PARTITION, schema.OFFSET)

OneByOne = Callable[[bytes], Any]  # ValueError with the reason where it cannot be decoded


class BadValue(Exception):
    """A value that is not what the schema says."""


class ValueDecoder:
    """Made once for a query and pickled for its tasks."""

    def __init__(self, options: Options, arrow_type: pa.DataType) -> None:
        self._format: str = options["valueFormat"]
        self._schema = avro_schema(options) if self._format == "avro" else ""
        self._registry_url: str | None = options["schemaRegistryUrl"]
        self._fails = options["valueErrors"] == "fail"
        self._type = arrow_type

    def columns_needed(self, columns: Sequence[str]) -> list[str]:
        """What must be read for these columns."""
        if schema.VALUE not in columns:
            return list(columns)
        return [*columns, *(name for name in NAMES if name not in columns)]

    def decoded(self, batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if schema.VALUE not in columns:
            yield from batches
            return
        fields = [(name, self._type if name == schema.VALUE else schema.ARROW_TYPES[name]) for name in columns]
        wanted = pa.schema(fields)
        decode = self._decoder()
        for batch in batches:
            values = decode(batch)
            arrays = [values if name == schema.VALUE else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def _decoder(self) -> Callable[[pa.RecordBatch], pa.Array]:
        if self._format == "json":
            from barnabas.spark.values import json_values

            one = json_values.one_by_one(self._type)
            bulk: json_values.Bulk | None = json_values.whole_batches(self._type)
        else:
            from barnabas.spark.values import avro_values

            one = avro_values.one_by_one(self._schema, self._registry_url)
            bulk = None

        def decode(batch: pa.RecordBatch) -> pa.Array:
            found = None if bulk is None else bulk(batch.column(schema.VALUE))
            return self._each(batch, one) if found is None else found

        return decode

    def _each(self, batch: pa.RecordBatch, one: OneByOne) -> pa.Array:
        """One by one, so that what cannot be decoded is known by its place."""
        found: list[Any] = []
        for number, value in enumerate(batch.column(schema.VALUE).to_pylist()):
            try:
                found.append(None if value is None else one(value))
            except ValueError as problem:
                if self._fails:
                    topic, partition, offset = (batch.column(name)[number].as_py() for name in NAMES)
                    raise BadValue(
                        f"the value at offset {offset} of {topic}-{partition} is not {self._format} of the schema: "
                        f"{problem}; give valueErrors=null to read it as null"
                    ) from None
                found.append(None)
        return pa.array(found, self._type)


def check(options: Options) -> None:
    """What the options of values demand of each other."""
    value_format, value_schema, url = options["valueFormat"], options["valueSchema"], options["schemaRegistryUrl"]
    if value_format is None:
        for name in ("valueSchema", "schemaRegistryUrl", "valueErrors"):
            if name in options.given:
                raise ConfigError(f"{name} has no meaning without valueFormat")
    elif value_format == "json":
        if url is not None:
            raise ConfigError("schemaRegistryUrl is for valueFormat=avro")
        if not value_schema:
            raise ConfigError('valueFormat=json needs valueSchema, such as "amount double, name string"')
    elif not value_schema and url is None:
        raise ConfigError("valueFormat=avro needs valueSchema, schemaRegistryUrl, or both")
    elif not value_schema and (len(options["subscribe"]) != 1 or options["logDirs"]):
        raise ConfigError(
            "without valueSchema the registry is asked for that of one topic: subscribe to one, or give it"
        )


def value_ddl(options: Options) -> str | None:
    """The type of the column value as Spark's DDL; None where values are bytes.

    The registry is asked where it is to say the schema.
    """
    if options["valueFormat"] is None:
        return None
    if options["valueFormat"] == "json":
        return json_ddl(options["valueSchema"])
    from barnabas.spark.values import avro_values

    return avro_values.ddl(avro_schema(options))


def avro_schema(options: Options) -> str:
    """The one that was given, or the newest of the topic."""
    from barnabas.spark.values import schema_registry

    given: str | None = options["valueSchema"]
    return given or schema_registry.latest_schema(options["schemaRegistryUrl"], options["subscribe"][0])


def json_ddl(text: str) -> str:
    """DDL as it is, or a schema as Spark writes it in JSON."""
    if not text.lstrip().startswith("{"):
        return f"struct<{text}>"
    import json

    from pyspark.sql.types import StructType

    try:
        return StructType.fromJson(json.loads(text)).simpleString()
    except (ValueError, KeyError, TypeError) as problem:
        raise ConfigError(f"valueSchema is no schema of Spark's: {problem}") from None


def value_decoder(options: Options, spark_schema: "StructType") -> ValueDecoder | None:
    """`spark_schema` is the one that Spark has understood."""
    if options["valueFormat"] is None or schema.VALUE not in spark_schema.names:
        return None
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructType

    value_type = spark_schema[schema.VALUE].dataType
    if not isinstance(value_type, StructType):
        raise ConfigError(f"the column value is {value_type.simpleString()}, not a struct, which valueFormat makes it")
    return ValueDecoder(options, to_arrow_type(value_type, timezone="UTC"))
