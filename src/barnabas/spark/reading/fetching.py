"""Reading a range of one partition from its leader, in large pieces, each fetched while the one before is decoded.

Always holds: every record of the range becomes a row once, or what is missing is told with its exact offsets: deleted
(below where the log now begins), cut off (beyond where it now ends), or gone with its topic. Offsets that merely have
no record (compaction, markers, aborted transactions) are no loss. Memory is bounded by three fetches and the largest
batch. Does not know: how ranges were chosen.
"""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError, StaleMetadataError, error_of
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD_BYTES
from barnabas.spark.arrow.decoder import AbortedTransaction, BadBatch, RecordDecoder
from barnabas.spark.connections import Connections, connections
from barnabas.spark.reading.brokers import Brokers, is_unknown_topic
from barnabas.spark.reading.read_settings import ReadConfig, read_config
from barnabas.types import BrokerId, Offset, TopicPartition, Uuid

FETCH = "fetch"  # the purpose of the connection: large answers hold back nothing else
FETCH_BYTES_MIN = 256 << 10
OVERHEAD = 1.1  # how much more than the average is asked for, so that the last piece of a range comes at once

_batch_fields = Struct(">qi11xi").unpack_from  # base_offset, batch_length, last_offset_delta

logger = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records that were to be read are no longer there. The message says which, and why as far as can be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSplit:
    """A range of one partition."""

    topic: str
    partition: int
    topic_id: Uuid
    first_offset: Offset
    end_offset: Offset
    bytes_per_record: float  # about; only to ask for what is left and not for more

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTask(InputPartition):
    """What one task reads, one after the other."""

    splits: tuple[FetchSplit, ...]


class Piece(NamedTuple):
    """One answer."""

    fetch_offset: Offset
    records: bytes
    next_offset: Offset  # behind its last whole batch; the one that was fetched where there is none
    log_start_offset: Offset
    end_offset: Offset  # what may be read at the moment
    aborted: tuple[AbortedTransaction, ...]


class Fetcher:
    def __init__(self, cluster: Cluster, config: ReadConfig, split: FetchSplit) -> None:
        self._cluster = cluster
        self._config = config
        self._split = split

    async def fetch(self, offset: Offset) -> Piece:
        """From this offset on; waits until there is something, and tries again where the leader has moved."""
        return await self._cluster.retry(
            lambda: self._attempt(offset),
            what=f"a fetch of {self._split.name} at offset {offset}",
            timeout_ms=self._config.default_api_timeout_ms,
            topics=[self._split.topic],
        )

    async def _attempt(self, offset: Offset) -> Piece:
        split, config = self._split, self._config
        leader = self._cluster.leader(split.topic, split.partition)
        if leader is None:
            raise StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, f"{split.name} has no leader at the moment")
        left_bytes = int((split.end_offset - offset) * split.bytes_per_record * OVERHEAD) + FETCH_BYTES_MIN
        size_bytes = min(config.fetch_max_bytes, left_bytes)
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes,
            isolation_level=config.isolation,
            topics=[
                FetchTopic(
                    topic=split.topic,
                    topic_id=split.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=split.partition,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=offset,
                            partition_max_bytes=size_bytes,
                        )
                    ],
                )
            ],
        )
        response, records = await self._ask(leader.node_id, request)
        code = response.error_code or (response.responses[0].partitions[0].error_code if response.responses else 0)
        if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            raise error_of(code, about=str(split.name))
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # what the answer says of the log's bounds is then not to be used
            brokers = Brokers(self._cluster, config)
            bounds = (await brokers.bounds([split.name]))[split.name]
            is_beyond = offset > bounds.latest and not await brokers.beyond_open_transactions({split.name: offset})
            if offset >= bounds.earliest and not is_beyond:
                # Who answered first was no longer the leader, or is not yet as far as the one before.
                raise StaleMetadataError(
                    ErrorCode.OFFSET_NOT_AVAILABLE, f"{split.name} refused offset {offset}, which it has"
                )
            return Piece(offset, b"", offset, bounds.earliest, bounds.latest, ())
        answer = response.responses[0].partitions[0]
        end = answer.last_stable_offset if config.read_committed else answer.high_watermark
        next_offset = _next_offset(records, offset)
        if next_offset == offset:
            # A leader that has just been elected may not know yet how far its log counts.
            raise StaleMetadataError(
                ErrorCode.OFFSET_NOT_AVAILABLE, f"{split.name} has nothing to read at offset {offset}; it ends at {end}"
            )
        aborted = tuple(
            AbortedTransaction(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
        )
        return Piece(offset, records, next_offset, answer.log_start_offset, end, aborted)

    async def _ask(self, node_id: BrokerId, request: FetchRequest) -> tuple[FetchResponse, bytes]:
        """The answer, and its records, which are copied once: out of the connection's buffer as they arrive."""
        found: list[tuple[FetchResponse, bytes]] = []

        def take(response: FetchResponse) -> None:
            partitions = response.responses[0].partitions if response.responses else []
            records = partitions[0].records if partitions else None
            assert records is None or isinstance(records, memoryview)
            found.append((response, b"" if records is None else bytes(records)))

        connection, versions = await self._cluster.connected(node_id, FETCH)
        version = versions.best(FetchRequest.API_KEY)
        await connection.request_and_handle(request, version, take, self._config.request_timeout_ms)
        return found[0]


def _next_offset(records: bytes, offset: Offset) -> Offset:
    """Behind the last whole batch."""
    position, limit = 0, len(records)
    while position + HEADER_BYTES <= limit:
        base_offset, batch_length, last_offset_delta = _batch_fields(records, position)
        position += LOG_OVERHEAD_BYTES + batch_length
        if batch_length <= 0 or position > limit:
            break
        offset = max(offset, base_offset + last_offset_delta + 1)
    return offset


def read(
    task: FetchTask, columns: Sequence[str], kafka: dict[str, str], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, on the connections of this worker process."""
    config = read_config(kafka)
    here = connections()
    cluster = here.run(here.cluster(config))
    for split in task.splits:
        yield from _read(here, Fetcher(cluster, config, split), split, columns, fail_on_data_loss)


def _read(
    here: Connections, fetcher: Fetcher, split: FetchSplit, columns: Sequence[str], fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    decoder = RecordDecoder(topic=split.topic, partition=split.partition, columns=columns)
    offset = split.first_offset
    coming: Future[Piece] | None = here.submit(fetcher.fetch(offset))
    try:
        while coming is not None:
            try:
                piece = coming.result()
            except KafkaError as error:
                _gone(split, offset, error, fail_on_data_loss)
                return
            coming = None
            offset = piece.next_offset
            if offset == piece.fetch_offset:
                offset = _out_of_range(split, piece, fail_on_data_loss)
            if offset < split.end_offset:
                coming = here.submit(fetcher.fetch(offset))
            try:
                yield from decoder.decode(
                    piece.records, first_offset=piece.fetch_offset, end_offset=split.end_offset, aborted=piece.aborted
                )
            except BadBatch as bad:
                raise BadBatch(bad.position, f"{split.name}, fetched at {piece.fetch_offset}: {bad}") from None
    finally:
        if coming is not None:
            coming.cancel()


def _out_of_range(split: FetchSplit, piece: Piece, fail: bool) -> Offset:
    """Where to go on after an offset that the log does not have."""
    offset = piece.fetch_offset
    if offset < piece.log_start_offset:
        lost_end = min(piece.log_start_offset, split.end_offset)
        lose(
            f"offsets {offset} to {lost_end - 1} of {split.name} were deleted before they were read: "
            f"the log now begins at {piece.log_start_offset}",
            fail,
        )
        return lost_end
    lose(
        f"offsets {offset} to {split.end_offset - 1} of {split.name} were cut off: "
        f"the log now ends at {piece.end_offset}",
        fail,
    )
    return split.end_offset


def _gone(split: FetchSplit, offset: Offset, error: KafkaError, fail: bool) -> None:
    if not is_unknown_topic(error):
        raise error
    lose(
        f"offsets {offset} to {split.end_offset - 1} of {split.name} are gone: "
        "the topic or partition was deleted, or made anew under its name",
        fail,
    )


def lose(what: str, fail: bool) -> None:
    if fail:
        raise DataLoss(f"{what}; give failOnDataLoss=false to go on without them")
    logger.warning("%s; going on without them", what)
