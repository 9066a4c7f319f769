"""What the options of a read demand of each other. Checked before anything is asked of a broker.

Always holds: an option that would have no effect here is refused, by name.
"""

from collections.abc import Sequence

from barnabas.config.validation import ConfigError
from barnabas.spark.options import COMMITTED, Options
from barnabas.spark.reading import selection
from barnabas.spark.reading.read_settings import READ_COMMITTED, read_config
from barnabas.spark.schema import columns
from barnabas.spark.values import value_format

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
NOT_FOR_SCANS = ("groupId", "maxRecordsPerPartition")
SCAN_SETTINGS = ("isolation.level",)


def check_batch(options: Options) -> None:
    selection.check(options)
    value_format.check(options)
    _refuse(options, STREAM_ONLY, "is for streams")
    if options["logDirs"]:
        _refuse(options, NOT_FOR_SCANS, "has no meaning with logDirs")
        for name, value in options.kafka.items():
            if name not in SCAN_SETTINGS:
                raise ConfigError(f"kafka.{name} has no meaning with logDirs: no broker is asked")
            if value not in (READ_COMMITTED, "read_uncommitted"):
                raise ConfigError(f"kafka.{name}: {value!r} is neither read_committed nor read_uncommitted")
        return
    _check_group(options)
    if options["groupId"] is not None and options["startingOffsets"] != COMMITTED:
        raise ConfigError("groupId commits what streams finish; a batch query takes it with startingOffsets=committed")
    read_config(options.kafka)


def check_stream(options: Options) -> None:
    selection.check(options)
    value_format.check(options)
    _refuse(options, BATCH_ONLY, "is for batch queries; a stream has no end")
    if options["logDirs"]:
        raise ConfigError("logDirs is for batch queries; a stream reads from brokers")
    if "maxTriggerDelay" in options.given and options["minOffsetsPerTrigger"] is None:
        raise ConfigError("maxTriggerDelay bounds minOffsetsPerTrigger, which is not given")
    most, least = options["maxOffsetsPerTrigger"], options["minOffsetsPerTrigger"]
    if most is not None and least is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}")
    _check_group(options)
    read_config(options.kafka)


def check_schema(names: Sequence[str], options: Options) -> None:
    """A schema that the user gives must be that of the source."""
    wanted = columns(options)
    if tuple(names) != wanted:
        raise ConfigError(
            f"the schema has the columns {', '.join(names)}, and this read {', '.join(wanted)}: "
            "leave .schema(…) out, and choose with the option columns"
        )


def _check_group(options: Options) -> None:
    if options["startingOffsets"] == COMMITTED and not options["groupId"]:
        raise ConfigError("startingOffsets=committed needs groupId: whose offsets?")


def _refuse(options: Options, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in options.given:
            raise ConfigError(f"{name} {why}")
