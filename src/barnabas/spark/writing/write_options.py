"""The options and columns of a write, checked before anything is written.

Always holds: a `WriteOptions` can be pickled and has settings that the sender obeys; settings of producers that mean
nothing here are refused with the reason. Does not know: how rows are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.settings import ProducerConfig
from barnabas.config.setting import Setting, boolean, long, string
from barnabas.config.validation import ConfigError, at_least
from barnabas.protocol.compression import Codec
from barnabas.spark.options import Options, client_config

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PROGRESS_TOPIC = "__barnabas_spark_progress"
BATCH_BYTES = 512 << 10  # rows come by the thousand: larger batches than a producer's 16 KiB, below any topic's maximum
REQUEST_BYTES_MAX = 8 << 20
SINK_NAME_CHARACTERS_MAX = 200

WRITE_OPTIONS: Sequence[Setting] = (
    string("topic", None, help="Where rows go. Goes before the column topic."),
    boolean(
        "exactlyOnce",
        False,
        help="Whether each row is there once for readers of committed records, whatever fails; else at least once.",
    ),
    string(
        "sinkId",
        None,
        help="With exactlyOnce: the name of this sink, its own among all queries, and the same after a restart. "
        "Without it the option checkpointLocation, where it is given to the query itself.",
    ),
    long(
        "batchId",
        None,
        at_least(0),
        help="With exactlyOnce, for batch writes: the number of this batch. One that was written, or lies before one "
        "that was, is not written again. Inside foreachBatch it is the number that Spark gives.",
    ),
    string(
        "queryId",
        None,
        help="With batchId: whose numbers these are. Without it the streaming query inside which the write runs, or "
        "else the sink.",
    ),
    string("progressTopic", PROGRESS_TOPIC, help="With exactlyOnce: the compacted topic in which sinks decide."),
    string(
        "syncTopic",
        None,
        help="With exactlyOnce, for copies of topics: a compacted topic in which to keep which offset of the copy is "
        "which of the column offset.",
    ),
    boolean(
        "failOnDataLoss",
        True,
        help="With exactlyOnce: whether rows that brokers aborted because the driver was away too long fail the query.",
    ),
)
# What Spark itself hands on.
_OF_SPARK = ("checkpointlocation", "queryname", "path", "provider", "outputmode")
_REFUSED = {
    "transactional.id": "exactlyOnce makes transactions of its own",
    "transaction.timeout.ms": "exactlyOnce takes the longest that the brokers allow",
    "linger.ms": "rows are sent as they come",
    "retries": "batches are sent again until delivery.timeout.ms",
    "max.in.flight.requests.per.connection": "five keep their order",
    "max.block.ms": "give delivery.timeout.ms",
    "key.serializer": "keys are strings or bytes",
    "value.serializer": "values are strings or bytes",
}
_OF_THE_SOURCE = ("offset", "timestampType")  # columns of a read that may stay, for copies; they decide nothing


class WriteOptions:
    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = dict(given)
        options = Options(given, WRITE_OPTIONS, ignored=_OF_SPARK)
        for name in options.kafka:
            if name in _REFUSED:
                raise ConfigError(f"kafka.{name} has no meaning for a write: {_REFUSED[name]}")
        self.topic: str | None = options["topic"]
        self.exactly_once: bool = options["exactlyOnce"]
        self.progress_topic: str = options["progressTopic"]
        self.fail_on_data_loss: bool = options["failOnDataLoss"]
        self.sync_topic: str | None = options["syncTopic"]
        if self.sync_topic is not None and not self.exactly_once:
            raise ConfigError("syncTopic has a meaning with exactlyOnce only")
        self.batch_id: int | None = options["batchId"]
        self.query_id: str | None = options["queryId"]
        if self.batch_id is not None and not self.exactly_once:
            raise ConfigError("batchId has a meaning with exactlyOnce only")
        if self.query_id is not None and self.batch_id is None:
            raise ConfigError("queryId has a meaning with batchId only")
        self.sink: str = self._sink(options, given) if self.exactly_once else ""
        self.config = self._config(options.kafka)

    def __reduce__(self) -> tuple[type[WriteOptions], tuple[dict[str, str]]]:
        return WriteOptions, (self.given,)

    def _sink(self, options: Options, given: Mapping[str, str]) -> str:
        lower = {name.lower(): value for name, value in given.items()}
        found: str | None = options["sinkId"] or lower.get("checkpointlocation")
        if not found:
            raise ConfigError(
                "exactlyOnce needs sinkId, a name of this sink's own that stays the same when the query starts again"
            )
        if len(found) > SINK_NAME_CHARACTERS_MAX:
            raise ConfigError(f"sinkId: at most {SINK_NAME_CHARACTERS_MAX} characters are allowed, not {len(found)}")
        return found

    def _config(self, kafka: Mapping[str, str]) -> ProducerConfig:
        wanted = {"batch.size": str(BATCH_BYTES), "max.request.size": str(REQUEST_BYTES_MAX), **kafka}
        config = client_config(ProducerConfig, wanted)
        if config.acks == 0:
            raise ConfigError("kafka.acks: 0 is not allowed, for nobody would know what was written")
        if self.exactly_once and not config.is_idempotent:
            raise ConfigError("exactlyOnce needs kafka.acks=all and kafka.enable.idempotence=true")
        return config

    @property
    def codec(self) -> Codec:
        return Codec[self.config.compression_type.upper()]

    @property
    def level(self) -> int | None:
        match self.codec:
            case Codec.GZIP:
                return None if self.config.compression_gzip_level == -1 else self.config.compression_gzip_level
            case Codec.LZ4:
                return self.config.compression_lz4_level
            case Codec.ZSTD:
                return self.config.compression_zstd_level
        return None


def check_schema(schema: StructType, topic: str | None, *, needs_offsets: bool = False) -> None:
    """ConfigError that names the column where rows of this schema cannot become records."""
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        raise ConfigError(f"column value is missing; there are {', '.join(found) or 'no columns'}")
    if topic is None and "topic" not in found:
        raise ConfigError("there is neither an option topic nor a column topic: nobody knows where rows go")
    if needs_offsets and "offset" not in found:
        raise ConfigError("syncTopic needs the column offset of what is copied")
    if topic is not None and "topic" in found:
        found.pop("topic")
    for name, type_ in found.items():
        allowed = _allowed(name)
        if allowed is None:
            raise ConfigError(
                f"column {name} is none that a record has; there are key, value, headers, timestamp, topic and "
                "partition: select or drop"
            )
        if allowed and type_.simpleString() not in allowed:
            raise ConfigError(f"column {name} is {type_.simpleString()}; it must be {' or '.join(allowed)}")


def _allowed(name: str) -> tuple[str, ...] | None:
    match name:
        case "key" | "value":
            return "string", "binary"
        case "topic":
            return ("string",)
        case "partition":
            return ("int",)
        case "timestamp":
            return "timestamp", "timestamp_ntz"
        case "headers":
            return ("array<struct<key:string,value:binary>>",)
    return () if name in _OF_THE_SOURCE else None
