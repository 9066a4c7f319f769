"""Offsets committed in a transaction: who may, when they count, and what else happens to them meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.coordination.outcome import Client, Moment, Outcome, Pending, Producer
from barnabas.errors import ErrorCode
from barnabas.groups.group import Surroundings
from barnabas.groups.offsets import commit_record, tombstone
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import NoTopics
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NOW = Moment(1_000, 1_000)
CLIENT = Client(5, "client", "/127.0.0.1")
PRODUCER = Producer(7, 3)


class Log:
    def __init__(self) -> None:
        surroundings = Surroundings(settings=GroupSettings(), topics=NoTopics(), random=random.Random(1))
        self.shard = GroupShard(surroundings)
        self.end_offset = 0

    def perform(self, outcome: Outcome) -> Any:
        for record in outcome.records:
            self.shard.apply(record, self.end_offset, -1 if outcome.producer is None else outcome.producer.id)
            self.end_offset += 1
        ((_pending, response),) = outcome.answers
        return response

    def commit(self, offset: int, *, producer: Producer = PRODUCER, metadata: str = "", **who: Any) -> Any:
        each = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[each])],
            **who,
        )
        outcome = self.shard.transactional_offset_commit(request, CLIENT, Pending(), NOW)
        assert outcome.producer in (producer, None)
        response = self.perform(outcome)
        return response if isinstance(response, ErrorCode) else response.topics[0].partitions[0].error_code

    def fetch(self, *, require_stable: bool = False) -> tuple[int, int]:
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        request = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
        response = self.perform(self.shard.offset_fetch(request, Pending(), require_stable=require_stable))
        found = response.topics[0].partitions[0]
        return found.committed_offset, found.error_code


@pytest.mark.parametrize("committed", [True, False])
def test_they_count_from_the_marker_on(committed: bool) -> None:
    log = Log()
    assert log.commit(5) == ErrorCode.NONE
    assert log.fetch() == (-1, ErrorCode.NONE)
    assert log.fetch(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    log.shard.transaction_ended(PRODUCER.id, committed=committed)
    assert log.fetch(require_stable=True) == (5 if committed else -1, ErrorCode.NONE)


def test_another_transaction_does_not_end_them() -> None:
    log = Log()
    log.commit(5)
    log.commit(6, producer=Producer(8, 0))
    log.shard.transaction_ended(8, committed=True)
    assert log.fetch() == (6, ErrorCode.NONE)
    assert log.fetch(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    log.shard.transaction_ended(7, committed=True)
    assert log.fetch(require_stable=True) == (6, ErrorCode.NONE)  # the log has a later word on it


def test_a_commit_without_a_transaction_that_came_later_wins() -> None:
    log = Log()
    log.commit(5)
    log.shard.apply(commit_record("g", "t", 0, offset=9, commit_timestamp_ms=1), log.end_offset)
    log.shard.transaction_ended(PRODUCER.id, committed=True)
    assert log.fetch() == (9, ErrorCode.NONE)


def test_what_is_deleted_meanwhile_does_not_come_back() -> None:
    log = Log()
    log.commit(5)
    log.shard.apply(tombstone("g", "t", 0), log.end_offset)
    log.shard.transaction_ended(PRODUCER.id, committed=True)
    assert log.fetch(require_stable=True) == (-1, ErrorCode.NONE)


def test_a_producer_speaks_for_a_member_or_for_nobody() -> None:
    log = Log()
    assert log.commit(5, generation_id=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION  # there is no such group
    assert log.commit(5) == ErrorCode.NONE
    assert log.commit(5, generation_id=3, member_id="m") == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.commit(5, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
