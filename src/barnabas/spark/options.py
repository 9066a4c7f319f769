"""Every option of the data source once: name, type, default, help; and what was given, checked.

Spark hands options over with lower-case keys, so case means nothing. `kafka.*` goes to the client as it is.
Always holds: an `Options` has a value for every option of its side (read or write), each of the right type and in
range; a name that is none of them raises ConfigError with the nearest one. Does not know: what the values do.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.config.setting import Notation, Setting, boolean, integer, long, names, string
from barnabas.config.validation import ConfigError, at_least, one_of

KAFKA_PREFIX = "kafka."
EARLIEST, LATEST, COMMITTED = "earliest", "latest", "committed"

# Per partition, with Kafka's own marks for both ends: {"topic": {"0": 17, "1": -2}}.
PartitionNumbers = dict[str, dict[int, int]]

T = TypeVar("T")


def _decode_numbers(text: str) -> PartitionNumbers:
    try:
        found = json.loads(text)
        return {
            str(topic): {int(partition): _whole(number) for partition, number in numbers.items()}
            for topic, numbers in found.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ValueError('it must be JSON such as {"topic": {"0": 17, "1": 42}}') from None


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError
    return number


def _offsets(*words: str) -> Notation:
    def decode(text: str) -> str | PartitionNumbers:
        if text.lower() in words:
            return text.lower()
        if text.startswith("{"):
            return _decode_numbers(text)
        raise ValueError(f'it must be {", ".join(words)} or JSON such as {{"topic": {{"0": 17, "1": 42}}}}')

    return Notation(decode, str)


def _decode_assignment(text: str) -> dict[str, tuple[int, ...]]:
    try:
        found = json.loads(text)
        return {str(topic): tuple(sorted({_whole(each) for each in given})) for topic, given in found.items()}
    except (ValueError, AttributeError, TypeError):
        raise ValueError('it must be JSON such as {"topic": [0, 1]}') from None


_DURATION_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _decode_duration_ms(text: str) -> int:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    if not digits.isdecimal() or unit not in _DURATION_UNITS_MS:
        raise ValueError("it must be a time such as 500ms, 30s or 15m")
    return int(digits) * _DURATION_UNITS_MS[unit]


_NUMBERS = Notation(_decode_numbers, str)
_ASSIGNMENT = Notation(_decode_assignment, str)
_DURATION = Notation(_decode_duration_ms, str)

READ_OPTIONS: Sequence[Setting] = (
    names("subscribe", (), help="Topics to read, with commas."),
    string("subscribePattern", None, help="Topics to read, as a regular expression that matches the whole name."),
    string("assign", None, notation=_ASSIGNMENT, help='Partitions to read, as JSON: {"topic": [0, 1]}.'),
    names(
        "logDirs",
        (),
        help="Data directories of brokers, with commas: their segment files are read without asking a broker.",
    ),
    string(
        "startingOffsets",
        None,
        notation=_offsets(EARLIEST, LATEST, COMMITTED),
        help="earliest, latest, committed (of groupId; where nothing is committed, the default) or JSON by partition "
        "with -2 for earliest and -1 for latest. Without it batches begin at earliest and streams at latest.",
    ),
    string(
        "endingOffsets",
        LATEST,
        notation=_offsets(LATEST),
        help="Batches only: latest, or JSON by partition with -1 for latest.",
    ),
    long("startingTimestamp", None, at_least(0), help="Milliseconds: begin at the first record of this time or later."),
    long("endingTimestamp", None, at_least(0), help="Milliseconds; batches only: end before the first such record."),
    string(
        "startingOffsetsByTimestamp", None, notation=_NUMBERS, help="As startingTimestamp, as JSON for each partition."
    ),
    string("endingOffsetsByTimestamp", None, notation=_NUMBERS, help="As endingTimestamp, as JSON for each partition."),
    string(
        "startingOffsetsByTimestampStrategy",
        "error",
        one_of("error", "latest"),
        help="What to do where no record is as late as the starting timestamp.",
    ),
    long("splitBytes", 64 << 20, at_least(1 << 10), help="About how many bytes of log one task reads."),
    integer("minPartitions", None, at_least(1), help="At least so many tasks, where there are that many records."),
    long("maxRecordsPerPartition", None, at_least(1), help="At most so many records in one task."),
    long("maxOffsetsPerTrigger", None, at_least(1), help="Streams: at most so many records in a batch, over all."),
    long("minOffsetsPerTrigger", None, at_least(1), help="Streams: wait for so many records, up to maxTriggerDelay."),
    string(
        "maxTriggerDelay", 900_000, notation=_DURATION, help="Streams: how long minOffsetsPerTrigger may hold back."
    ),
    long("maxBytesPerTrigger", None, at_least(1), help="Streams: at most about so many bytes in a batch, over all."),
    boolean(
        "failOnDataLoss",
        True,
        help="Whether records that were deleted before they were read fail the query. Otherwise they are told in the "
        "log, with the exact range. Mere gaps (compaction, aborted transactions) are never a loss.",
    ),
    boolean("includeHeaders", False, help="Whether to add the column headers."),
    names("columns", (), help="Which columns to read, in this order; fewer are faster. Spark cannot ask by itself."),
    string(
        "groupId",
        None,
        help="Streams: commit what each batch has finished as the offsets of this consumer group. With "
        "startingOffsets=committed also the place to begin.",
    ),
    string("valueFormat", None, one_of("json", "avro"), help="Decode values into the fields of a struct."),
    string("valueSchema", None, help="For json a Spark DDL schema, for avro an Avro schema."),
    string("schemaRegistryUrl", None, help="Avro values carry a schema's id (Confluent's framing), to be found there."),
    string("valueErrors", "fail", one_of("fail", "null"), help="What becomes of a value that cannot be decoded."),
)

# Options of Spark's own connector that mean nothing here, with what to do instead.
_INSTEAD = {
    "groupidprefix": "tasks of this source read without a group; groupId commits progress",
    "kafka.group.id": "give groupId to commit progress; reading itself needs no group",
    "kafka.auto.offset.reset": "give startingOffsets",
    "kafka.enable.auto.commit": "give groupId: it commits what each batch has finished",
    "kafka.key.deserializer": "keys are bytes",
    "kafka.value.deserializer": "values are bytes; see valueFormat",
    "kafkaconsumer.polltimeoutms": "give kafka.request.timeout.ms",
    "fetchoffset.numretries": "give kafka.default.api.timeout.ms",
    "fetchoffset.retryintervalms": "give kafka.retry.backoff.ms",
}


class Options:
    """What was given and what follows from it. Small and fit to be pickled."""

    def __init__(self, given: Mapping[str, str], known: Sequence[Setting], *, ignored: Sequence[str] = ()) -> None:
        """`ignored` are names that Spark itself adds on its way."""
        by_name = {setting.name.lower(): setting for setting in known}
        self.kafka: dict[str, str] = {}  # client settings by Kafka's names
        self.given: frozenset[str] = frozenset()  # which options were given, by their names
        self._values: dict[str, Any] = {setting.name: setting.default for setting in known}
        found: list[str] = []
        skipped = {name.lower() for name in ignored}
        for name, text in given.items():
            lower = name.lower()
            if lower in _INSTEAD:
                raise ConfigError(f"{name} has no meaning here: {_INSTEAD[lower]}")
            if lower.startswith(KAFKA_PREFIX):
                self.kafka[lower.removeprefix(KAFKA_PREFIX)] = text
            elif lower in by_name:
                setting = by_name[lower]
                self._values[setting.name] = setting.decode(text)
                found.append(setting.name)
            elif lower not in skipped:
                raise ConfigError(f"{name} is not an option of the data source barnabas{_closest(lower, by_name)}")
        self.given = frozenset(found)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def client_config(kind: Callable[..., T], kafka: Mapping[str, str]) -> T:
    """The settings of a client, given by Kafka's names. Errors name the option, as it was given."""
    if not kafka.get("bootstrap.servers"):
        raise ConfigError('kafka.bootstrap.servers is missing; name a broker, as in "localhost:9092"')
    try:
        return kind(**kafka)
    except ConfigError as problem:
        raise ConfigError(f"{KAFKA_PREFIX}{problem}") from None


def _closest(lower: str, by_name: Mapping[str, Setting]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(lower, [*by_name, "kafka.bootstrap.servers"], n=1)
    if not found:
        return ""
    setting = by_name.get(found[0])
    return f"; did you mean {setting.name if setting else found[0]}?"
