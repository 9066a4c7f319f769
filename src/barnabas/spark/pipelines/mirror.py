"""Topics of one cluster in another: keys, values, headers, timestamps and partitions as they are, each record once.

The pipeline's own cluster is the one that is written to. Topics that are missing there are made, with as many
partitions and the settings that were given to the original; partitions that are added to the original are added.
Always holds: records of a partition keep their order, since one task reads all of a partition; a mirror that is started
again goes on where it stopped. Offsets differ, for transactions leave marks in the log: `mirror_groups` translates what
groups have committed, so that their members may go on at the copy and miss nothing.
Does not know: who reads the copies. Nobody else may write to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ResourceKind
from barnabas.client.admin.topics import NewTopic
from barnabas.client.errors import TopicExistsError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.config.describe import ConfigSource
from barnabas.config.validation import ConfigError
from barnabas.errors import ErrorCode
from barnabas.spark.connections import connections
from barnabas.spark.pipelines.model import EachBatch, Flow, Polling, Run, TopicSink
from barnabas.spark.writing.offset_syncs import Segments, decode_syncs, translated
from barnabas.spark.writing.progress import read_records
from barnabas.spark.writing.write_options import WriteOptions
from barnabas.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHOLE_PARTITIONS = 1 << 60  # bytes of a split: more than any partition has
SYNC_TOPIC = "__barnabas_mirror_syncs"


class Original(NamedTuple):
    """Where the topics that are copied are."""

    servers: str
    settings: Mapping[str, str] | None  # None: as the pipeline's own


def mirror(
    name: str,
    *,
    source_servers: str,
    source_settings: Mapping[str, str] | None = None,
    topics: list[str] | None = None,
    pattern: str | None = None,
    prefix: str = "",
    compression: str = "lz4",
) -> Flow:
    """`topics` by name, or all that match the pattern; in the copy `prefix` stands before their names.

    `source_settings` are Kafka's for clients of the original's cluster, such as security; else the pipeline's hold.
    """
    if (topics is None) == (pattern is None):
        raise ConfigError(f"flow {name}: mirror needs either topics or pattern")

    original = Original(source_servers, source_settings)

    def build(run: Run) -> DataFrame:
        connections().run(_make_topics(run, original, topics, pattern, prefix))
        chosen = {"subscribe": ",".join(topics)} if topics is not None else {"subscribePattern": pattern or ""}
        options = {
            **run.client(*original),
            **chosen,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "splitBytes": str(WHOLE_PARTITIONS),
            "kafka.isolation.level": "read_committed",
        }
        return run.spark.readStream.format("barnabas").options(**options).load()

    def write(run: Run, rows: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        connections().run(_make_topics(run, original, topics, pattern, prefix))
        copies = rows.withColumn("topic", F.concat(F.lit(prefix), F.col("topic"))).drop("timestampType")
        options = {"syncTopic": SYNC_TOPIC, "kafka.compression.type": compression}
        run.write(copies, TopicSink(options=options), name, batch_id)

    return Flow(name=name, build=build, sink=EachBatch(write))


async def _make_topics(
    run: Run, original: Original, topics: list[str] | None, pattern: str | None, prefix: str
) -> None:
    expression = None if pattern is None else re.compile(pattern)
    async with _admin(run, *original) as source, _admin(run) as target:
        there = {each.name: each.partitions for each in await target.list_topics(internal=True)}
        for found in await source.list_topics():
            wanted = found.name in topics if topics is not None else expression and expression.fullmatch(found.name)
            copy = prefix + found.name
            if not wanted:
                continue
            if copy not in there:
                await _make(source, target, found.name, copy, found.partitions)
            elif there[copy] < found.partitions:
                (await target.create_partitions({copy: found.partitions})).unwrap()


async def _make(source: Admin, target: Admin, name: str, copy: str, partitions: int) -> None:
    resource = ConfigResource(ResourceKind.TOPIC, name)
    entries = (await source.describe_configs([resource])).one(resource)
    configs = {key: entry.value for key, entry in entries.items() if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    try:
        (await target.create_topics([NewTopic(name=copy, partitions=partitions, configs=configs)])).unwrap()
    except TopicExistsError:
        return  # another mirror was faster


def _admin(run: Run, servers: str | None = None, settings: Mapping[str, str] | None = None) -> Admin:
    given: dict[str, Any] = run.client(servers, settings)
    return Admin(**{name.removeprefix("kafka.").replace(".", "_"): value for name, value in given.items()})


def mirror_groups(
    name: str,
    *,
    source_servers: str,
    source_settings: Mapping[str, str] | None = None,
    flow: str,
    groups: str = ".*",
    prefix: str = "",
) -> Polling:
    """Committed offsets of groups whose name matches, for the topics that the mirror `flow` copies.

    A group that has members at the copy is left alone: it has gone on there.
    """
    expression = re.compile(groups)
    original = Original(source_servers, source_settings)

    def poll(run: Run) -> int:
        return connections().run(_translate(run, original, flow, expression, prefix))

    return Polling(name=name, poll=poll, is_last=True)


async def _translate(run: Run, original: Original, flow: str, groups: re.Pattern[str], prefix: str) -> int:
    options = WriteOptions(run.sink_options(TopicSink(""), flow))
    here = await connections().cluster(options.config)
    known = decode_syncs(options.sink, await read_records(here, options.config, SYNC_TOPIC, options.sink))
    moved = 0
    async with _admin(run, *original) as source, _admin(run) as target:
        listings = (await source.list_groups()).unwrap()
        for group_id in sorted(each.group_id for found in listings.values() for each in found):
            if groups.fullmatch(group_id):
                committed = await source.list_consumer_group_offsets(group_id)
                moved += await _commit(target, group_id, translate(committed, known, prefix))
    return moved


def translate(
    committed: Mapping[TopicPartition, OffsetAndMetadata | None], known: Segments, prefix: str
) -> dict[TopicPartition, OffsetAndMetadata]:
    found = {}
    for partition, offset in committed.items():
        copy = TopicPartition(prefix + partition.topic, partition.partition)
        if offset is not None and (place := translated(offset.offset, known.get(copy, ()))) is not None:
            found[copy] = OffsetAndMetadata(place, offset.metadata)
    return found


async def _commit(target: Admin, group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> int:
    if not offsets:
        return 0
    there = await target.list_consumer_group_offsets(group_id, offsets)
    news = {key: each for key, each in offsets.items() if (at := there.get(key)) is None or at.offset < each.offset}
    if not news:
        return 0
    results = await target.alter_consumer_group_offsets(group_id, news)
    for error in results.failed.values():
        if error.code != ErrorCode.UNKNOWN_MEMBER_ID:  # which says that it has members
            raise error
    return len(results.done)
