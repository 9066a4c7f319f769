"""Every API of transactions, request by request, with the answers that Apache Kafka 4.3.1 gives.

BARNABAS_TEST_BOOTSTRAP names another broker to ask, which is how these answers were checked.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import group_wire as groups
import pytest
import transaction_wire as transactions
from broker_process import wait_until
from transaction_wire import add, add_as_broker, add_offsets, begin, commit_offsets, describe, end, init
from wire import Wire, batch, create_topic, fetch_request, produce_request

from barnabas.errors import ErrorCode as E
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_numbers = itertools.count(1)
Producer = tuple[int, int]


@pytest.fixture
def wire(served: str) -> Iterator[Wire]:
    with Wire(served) as wire:
        yield wire


@pytest.fixture
def new_id(wire: Wire) -> Callable[[], str]:
    def create() -> str:
        name = f"by-request.{os.getpid()}.{next(_numbers)}"
        transactions.await_coordinator(wire, name)
        return name

    return create


@pytest.fixture
def topic(wire: Wire, topic_name: Callable[[], str]) -> str:
    name = topic_name()
    create_topic(wire, name, partitions=3)
    asked = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0, 1, 2])])

    def is_led() -> bool:
        (found,) = wire.call(asked, 0).topics
        return all(each.error_code == E.NONE for each in found.partitions)

    wait_until(is_led, f"{name} has leaders")
    return name


def produce(
    wire: Wire,
    transactional_id: str | None,
    producer: Producer,
    topic: str,
    *,
    sequence: int = 0,
    partition: int = 0,
    version: int = 12,
    transactional: bool = True,
) -> int:
    records = batch(
        b"x",
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
        timestamp_ms=time.time_ns() // 1_000_000,
    )
    request = produce_request(topic, {partition: records})
    request.transactional_id = transactional_id
    error: int = wire.call(request, version).responses[0].partition_responses[0].error_code
    return error


def ended(wire: Wire, transactional_id: str, producer: Producer, *, commit: bool, version: int = 5) -> Any:
    """The answer to EndTxn, once the markers are written."""
    response = end(wire, transactional_id, producer, commit=commit, version=version)
    settle(wire, transactional_id)
    return response


def settle(wire: Wire, transactional_id: str) -> None:
    wait_until(lambda: not state(wire, transactional_id).startswith("Prepare"), "the markers are written")


def state(wire: Wire, transactional_id: str) -> str:
    name: str = describe(wire, transactional_id).transaction_state
    return name


# InitProducerId


def test_each_init_raises_the_epoch(wire: Wire, new_id: Callable[[], str]) -> None:
    name = new_id()
    producer = begin(wire, name)
    assert producer[1] == 0
    assert begin(wire, name) == (producer[0], 1)
    assert describe(wire, name).transaction_state == "Empty"


def test_an_init_that_names_its_epoch_goes_on_unless_another_came(wire: Wire, new_id: Callable[[], str]) -> None:
    name = new_id()
    first = begin(wire, name)
    raised = init(wire, name, first)
    assert (raised.producer_id, raised.producer_epoch) == (first[0], 1)
    assert init(wire, name, first).producer_epoch == 1  # the answer got lost
    assert init(wire, name, (first[0], 1)).producer_epoch == 2
    assert init(wire, name, first).error_code == E.PRODUCER_FENCED
    assert init(wire, name, first, version=3).error_code == E.INVALID_PRODUCER_EPOCH
    assert init(wire, name, (first[0] + 1000, 0)).error_code == E.PRODUCER_FENCED
    assert begin(wire, name) == (first[0], 3)
    assert init(wire, name, (first[0], 2)).error_code == E.PRODUCER_FENCED
    assert init(wire, new_id(), (5, 5)).producer_epoch == 0  # of whom nothing is known any more


def test_an_init_must_make_sense(wire: Wire, new_id: Callable[[], str]) -> None:
    name = new_id()
    assert init(wire, name, (1, -1)).error_code == E.INVALID_REQUEST
    assert init(wire, name, (-1, 1)).error_code == E.INVALID_REQUEST
    assert init(wire, "").error_code == E.INVALID_REQUEST
    for timeout_ms in (-1, 0, 900_001):
        assert init(wire, name, timeout_ms=timeout_ms).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert describe(wire, name).error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("by_broker", [True, False])
def test_an_init_aborts_what_is_ongoing(wire: Wire, new_id: Callable[[], str], topic: str, by_broker: bool) -> None:
    name = new_id()
    producer = begin(wire, name)
    (add_as_broker if by_broker else add)(wire, name, producer, {topic: [0]})
    assert init(wire, name).error_code == E.CONCURRENT_TRANSACTIONS
    settle(wire, name)
    described = describe(wire, name)
    assert (described.transaction_state, described.producer_epoch) == ("CompleteAbort", 1)
    assert begin(wire, name) == (producer[0], 2)


# AddPartitionsToTxn and AddOffsetsToTxn


@pytest.mark.parametrize("version", range(4))
def test_partitions_join(wire: Wire, new_id: Callable[[], str], topic: str, version: int) -> None:
    name = new_id()
    producer = begin(wire, name)
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    wrong_epoch, wrong_id = (producer[0], producer[1] + 1), (producer[0] + 1000, producer[1])
    assert add(wire, name, wrong_epoch, {topic: [0]}, version) == {(topic, 0): fenced}
    assert add(wire, name, wrong_id, {topic: [0]}, version) == {(topic, 0): E.INVALID_PRODUCER_ID_MAPPING}
    assert add(wire, "", producer, {topic: [0]}, version) == {(topic, 0): E.INVALID_REQUEST}
    transactions.await_coordinator(wire, "unknown")
    assert add(wire, "unknown", producer, {topic: [0]}, version) == {(topic, 0): E.INVALID_PRODUCER_ID_MAPPING}
    assert add(wire, name, producer, {topic: [0, 99], "nosuch": [0]}, version) == {
        (topic, 0): E.OPERATION_NOT_ATTEMPTED,
        (topic, 99): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("nosuch", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert state(wire, name) == "Empty"
    assert add(wire, name, producer, {topic: [0, 2]}, version) == {(topic, 0): 0, (topic, 2): 0}
    described = describe(wire, name)
    assert described.transaction_state == "Ongoing"
    assert [(each.topic, sorted(each.partitions)) for each in described.topics] == [(topic, [0, 2])]
    assert described.transaction_start_time_ms > 0


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_and_add(wire: Wire, new_id: Callable[[], str], topic: str, version: int) -> None:
    name = new_id()
    producer = begin(wire, name)

    def ask(transactional_id: str, producer: Producer, *, verify_only: bool) -> int:
        asked = add_as_broker(wire, transactional_id, producer, {topic: [0]}, verify_only=verify_only, version=version)
        return asked[topic, 0]

    assert ask(name, producer, verify_only=True) == E.TRANSACTION_ABORTABLE
    assert ask(name, (producer[0], 9), verify_only=True) == E.PRODUCER_FENCED
    assert ask("", producer, verify_only=True) == E.INVALID_REQUEST
    assert ask(name, (producer[0] + 1000, 0), verify_only=True) == E.INVALID_PRODUCER_ID_MAPPING
    assert ask(name, producer, verify_only=False) == E.NONE
    assert ask(name, producer, verify_only=True) == E.NONE


@pytest.mark.parametrize("version", range(5))
def test_the_offsets_of_a_group_join(wire: Wire, new_id: Callable[[], str], version: int) -> None:
    name = new_id()
    producer = begin(wire, name)
    groups.await_coordinator(wire, "g")
    fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    assert add_offsets(wire, name, (producer[0], 9), "g", version) == fenced
    assert add_offsets(wire, name, (producer[0] + 1000, 0), "g", version) == E.INVALID_PRODUCER_ID_MAPPING
    assert add_offsets(wire, "", producer, "g", version) == E.INVALID_REQUEST
    assert add_offsets(wire, name, producer, "g", version) == E.NONE
    (joined,) = describe(wire, name).topics
    assert joined.topic == "__consumer_offsets"
    assert len(joined.partitions) == 1


# EndTxn


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_an_old_producer_ends(wire: Wire, new_id: Callable[[], str], topic: str, first: bool, second: bool) -> None:
    name = new_id()
    producer = begin(wire, name)
    assert ended(wire, name, producer, commit=first, version=4).error_code == E.INVALID_TXN_STATE
    add(wire, name, producer, {topic: [0]})
    for epoch in (-1, 1):
        wrong = (producer[0], producer[1] + epoch)
        assert end(wire, name, wrong, commit=first, version=1).error_code == E.INVALID_PRODUCER_EPOCH
        assert end(wire, name, wrong, commit=first, version=4).error_code == E.PRODUCER_FENCED
    wrong = (producer[0] + 1000, producer[1])
    assert end(wire, name, wrong, commit=first, version=4).error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert ended(wire, name, producer, commit=first, version=4).error_code == E.NONE
    repeated = E.NONE if first == second else E.INVALID_TXN_STATE
    assert ended(wire, name, producer, commit=second, version=4).error_code == repeated
    described = describe(wire, name)
    assert described.transaction_state == ("CompleteCommit" if first else "CompleteAbort")
    assert described.producer_epoch == producer[1]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_each_end_raises_the_epoch(
    wire: Wire, new_id: Callable[[], str], topic: str, first: bool, second: bool
) -> None:
    name = new_id()
    producer = begin(wire, name)
    assert ended(wire, name, producer, commit=True).error_code == E.INVALID_TXN_STATE
    empty = ended(wire, name, producer, commit=False)  # where nothing was added
    assert (empty.error_code, empty.producer_epoch) == (E.NONE, 1)
    producer = (producer[0], 1)
    add_as_broker(wire, name, producer, {topic: [0]})
    done = ended(wire, name, producer, commit=first)
    assert (done.error_code, done.producer_id, done.producer_epoch) == (E.NONE, producer[0], 2)
    repeated = ended(wire, name, producer, commit=second)
    assert repeated.error_code == (E.NONE if first == second else E.INVALID_TXN_STATE)
    following = ended(wire, name, (producer[0], 2), commit=second)
    assert following.error_code == (E.INVALID_TXN_STATE if second else E.NONE)
    assert ended(wire, name, (producer[0], 9), commit=second).error_code == E.PRODUCER_FENCED


def test_an_end_needs_an_id_that_is_known(wire: Wire, new_id: Callable[[], str]) -> None:
    assert end(wire, new_id(), (1, 1), commit=True).error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert end(wire, "", (1, 1), commit=True).error_code == E.INVALID_REQUEST


def test_kafka_17754_a_late_end_does_not_touch_the_next_transaction(
    wire: Wire, new_id: Callable[[], str], topic: str
) -> None:
    """The EndTxn, AddPartitions and Produce of a transaction that were held up until the next one was under way."""
    name = new_id()
    first = begin(wire, name)
    assert produce(wire, name, first, topic) == E.NONE
    second = (first[0], ended(wire, name, first, commit=True).producer_epoch)
    assert produce(wire, name, second, topic) == E.NONE
    for commit in (True, False):
        assert end(wire, name, first, commit=commit).error_code == E.PRODUCER_FENCED
    assert add(wire, name, first, {topic: [1]}) == {(topic, 1): E.PRODUCER_FENCED}
    assert produce(wire, name, first, topic, sequence=1) == E.INVALID_PRODUCER_EPOCH
    assert produce(wire, name, first, topic, partition=1) == E.INVALID_PRODUCER_EPOCH
    described = describe(wire, name)
    assert (described.transaction_state, [each.partitions for each in described.topics]) == ("Ongoing", [[0]])
    # A marker of the first one that is sent again ends nothing of the second.
    late = transactions.write_markers(
        wire, second, {topic: [0]}, commit=False, coordinator_epoch=100, transaction_version=2, version=2
    )
    assert late == {(topic, 0): E.INVALID_PRODUCER_EPOCH}
    assert ended(wire, name, second, commit=True).error_code == E.NONE
    fetched = read(wire, topic, isolation_level=1)
    assert (fetched.last_stable_offset, fetched.aborted_transactions) == (4, [])


# Produce


@pytest.mark.parametrize("version", [3, 9, 10, 11])
def test_records_of_an_unknown_transaction_are_refused(
    wire: Wire, new_id: Callable[[], str], topic: str, version: int
) -> None:
    name = new_id()
    producer = begin(wire, name)
    not_added = E.TRANSACTION_ABORTABLE if version >= 11 else E.INVALID_TXN_STATE
    assert produce(wire, name, producer, topic, version=version) == not_added
    assert produce(wire, name, (producer[0], 9), topic, version=version) == E.INVALID_PRODUCER_EPOCH
    assert produce(wire, name, (producer[0] + 1000, 0), topic, version=version) == E.INVALID_PRODUCER_ID_MAPPING
    assert produce(wire, "", producer, topic, version=version) == E.INVALID_REQUEST
    assert produce(wire, None, producer, topic, version=version) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    add(wire, name, producer, {topic: [0]})
    assert produce(wire, name, producer, topic, version=version) == E.NONE
    assert produce(wire, name, producer, topic, version=version) == E.NONE  # a repetition
    assert produce(wire, name, producer, topic, sequence=5, version=version) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    plain = produce(wire, name, producer, topic, sequence=1, version=version, transactional=False)
    assert plain == E.INVALID_TXN_STATE
    ended(wire, name, producer, commit=True, version=4)
    assert produce(wire, name, producer, topic, sequence=1, version=version) == not_added


def test_the_first_records_make_a_partition_join(wire: Wire, new_id: Callable[[], str], topic: str) -> None:
    name = new_id()
    producer = begin(wire, name)
    assert produce(wire, name, producer, topic, sequence=5) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, name, producer, topic) == E.NONE
    assert [each.partitions for each in describe(wire, name).topics] == [[0]]
    assert produce(wire, name, (producer[0], 9), topic, partition=1) == E.INVALID_PRODUCER_EPOCH
    assert produce(wire, name, (producer[0] + 1000, 0), topic, partition=1) == E.INVALID_PRODUCER_ID_MAPPING
    assert produce(wire, None, producer, topic, sequence=1) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ended(wire, name, producer, commit=True)
    assert produce(wire, name, producer, topic, sequence=1) == E.INVALID_PRODUCER_EPOCH
    assert produce(wire, name, (producer[0], 1), topic) == E.NONE
    assert init(wire, name).error_code == E.CONCURRENT_TRANSACTIONS
    settle(wire, name)
    assert produce(wire, name, (producer[0], 1), topic, sequence=1) == E.INVALID_PRODUCER_EPOCH
    assert produce(wire, name, (producer[0], 1), topic, partition=2) == E.INVALID_PRODUCER_EPOCH


def test_a_request_of_two_producers_is_refused(wire: Wire, new_id: Callable[[], str], topic: str) -> None:
    name = new_id()
    producer = begin(wire, name)
    both = {
        index: batch(b"x", producer_id=producer[0] + index, producer_epoch=0, base_sequence=0, transactional=True)
        for index in range(2)
    }
    request = produce_request(topic, both)  # type: ignore[arg-type]
    request.transactional_id = name
    answers = wire.call(request, 11).responses[0].partition_responses
    assert {each.error_code for each in answers} == {E.INVALID_PRODUCER_ID_MAPPING}


# TxnOffsetCommit


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_transaction(wire: Wire, new_id: Callable[[], str], topic: str, version: int) -> None:
    name = new_id()
    producer = begin(wire, name)
    groups.await_coordinator(wire, name)
    at_three = {(topic, 0): 3}

    def commit(transactional_id: str, producer: Producer, group: str = name, **who: Any) -> int:
        given = commit_offsets(wire, transactional_id, producer, group, at_three, version=version, **who)
        return given[topic, 0]

    assert commit(name, (producer[0], 9)) == E.INVALID_PRODUCER_EPOCH
    assert commit(name, (producer[0] + 1000, 0)) == E.INVALID_PRODUCER_ID_MAPPING
    assert commit("unknown", producer) == E.INVALID_PRODUCER_ID_MAPPING
    assert commit("", producer) == E.INVALID_REQUEST
    assert commit(name, producer, "") == E.INVALID_GROUP_ID
    if version < 5:
        assert commit(name, producer) == (E.TRANSACTION_ABORTABLE if version == 4 else E.INVALID_TXN_STATE)
        assert add_offsets(wire, name, producer, name) == E.NONE
    assert commit(name, producer) == E.NONE
    if version >= 3:
        assert commit(name, producer, generation=3, member="m") == E.UNKNOWN_MEMBER_ID
    some = {("nosuch", 0): 1, (topic, 77): 1, (topic, 1): 4}
    assert commit_offsets(wire, name, producer, name, some, version=version) == {
        ("nosuch", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 77): E.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 1): E.NONE,
    }
    assert offset_of(wire, name, topic) == (-1, E.NONE)
    assert offset_of(wire, name, topic, require_stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
    assert ended(wire, name, producer, commit=True, version=5 if version == 5 else 4).error_code == E.NONE
    assert offset_of(wire, name, topic, require_stable=True) == (3, E.NONE)


def offset_of(wire: Wire, group: str, topic: str, *, require_stable: bool = False) -> tuple[int, int]:
    _error, found = groups.fetch(wire, group, {topic: [0]}, require_stable=require_stable)
    offset, _epoch, _metadata, error = found[topic, 0]
    return offset, error


# What readers and tools see


def read(wire: Wire, topic: str, *, isolation_level: int, partition: int = 0) -> Any:
    request = fetch_request(topic, {partition: 0})
    request.isolation_level = isolation_level
    return wire.call(request, 12).responses[0].partitions[0]


def test_readers_are_told_what_was_aborted(wire: Wire, new_id: Callable[[], str], topic: str) -> None:
    name = new_id()
    producer = begin(wire, name)
    for commit in (False, True):
        assert produce(wire, name, producer, topic) == E.NONE
        producer = (producer[0], ended(wire, name, producer, commit=commit).producer_epoch)
    assert produce(wire, name, producer, topic) == E.NONE
    committed = read(wire, topic, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in committed.aborted_transactions] == [(producer[0], 0)]
    uncommitted = read(wire, topic, isolation_level=0)
    assert uncommitted.aborted_transactions is None
    for fetched in (committed, uncommitted):
        assert (fetched.high_watermark, fetched.last_stable_offset) == (5, 4)
    for isolation_level, end_offset in ((0, 5), (1, 4)):
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        assert wire.call(request, 7).topics[0].partitions[0].offset == end_offset


def test_a_marker_is_written_once_to_a_partition_that_is_named_twice(wire: Wire, topic: str) -> None:
    """Kafka never answers such a request."""
    twice = WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 0])
    marker = WritableTxnMarker(producer_id=10_000_001, producer_epoch=0, topics=[twice, twice])
    before = end_offset(wire, topic)
    (told,) = wire.call(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    assert [(each.name, [one.partition_index for one in each.partitions]) for each in told.topics] == [(topic, [0])]
    assert end_offset(wire, topic) == before + 1


def end_offset(wire: Wire, topic: str) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    found: int = wire.call(request, 7).topics[0].partitions[0].offset
    return found


def test_markers_can_be_written_by_hand(wire: Wire, new_id: Callable[[], str], topic: str) -> None:
    name = new_id()
    producer = begin(wire, name)
    assert produce(wire, name, producer, topic) == E.NONE
    everywhere = {topic: [0, 77], "nosuch": [0]}
    assert transactions.write_markers(wire, producer, everywhere, commit=False, coordinator_epoch=-1) == {
        (topic, 0): E.NONE,
        (topic, 77): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("nosuch", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    nobody = (producer[0], -1)
    assert transactions.write_markers(wire, nobody, {topic: [0]}, commit=False) == {(topic, 0): E.UNKNOWN_SERVER_ERROR}
    for coordinator_epoch, error in ((5, E.NONE), (3, E.TRANSACTION_COORDINATOR_FENCED)):
        written = transactions.write_markers(
            wire, producer, {topic: [1]}, commit=False, coordinator_epoch=coordinator_epoch
        )
        assert written == {(topic, 1): error}
    asked = [
        TopicRequest(name=topic, partition_indexes=[0, 1, 77]),
        TopicRequest(name="nosuch", partition_indexes=[0]),
    ]
    told = wire.call(DescribeProducersRequest(topics=asked), 0)
    found = {(each.name, one.partition_index): one for each in told.topics for one in each.partitions}
    assert found[topic, 77].error_code == found["nosuch", 0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    (here,), (there,) = found[topic, 0].active_producers, found[topic, 1].active_producers
    assert (here.last_sequence, here.coordinator_epoch, here.current_txn_start_offset) == (0, -1, -1)
    assert (there.last_sequence, there.coordinator_epoch, there.current_txn_start_offset) == (-1, 5, -1)
    assert ended(wire, name, producer, commit=True).error_code == E.NONE


def test_ids_are_described_and_listed(wire: Wire, new_id: Callable[[], str], topic: str) -> None:
    name, other = new_id(), new_id()
    producer, idle = begin(wire, name, timeout_ms=12_345), begin(wire, other)
    add(wire, name, producer, {topic: [1]})
    described = describe(wire, name)
    assert (described.transaction_timeout_ms, described.producer_id) == (12_345, producer[0])
    assert describe(wire, "").error_code == E.INVALID_REQUEST
    assert describe(wire, new_id()).error_code == E.TRANSACTIONAL_ID_NOT_FOUND

    def listed(**filters: Any) -> list[tuple[str, str]]:
        states = transactions.list_all(wire, **filters).transaction_states
        return [(each.transactional_id, each.transaction_state) for each in states]

    assert {(name, "Ongoing"), (other, "Empty")} <= set(listed())
    assert listed(producer_id_filters=[producer[0], idle[0]], state_filters=["Ongoing"]) == [(name, "Ongoing")]
    assert listed(transactional_id_pattern=other.replace(".", "[.]")) == [(other, "Empty")]
    assert listed(producer_id_filters=[producer[0]], duration_filter=3_600_000) == []
    assert transactions.list_all(wire, state_filters=["Bogus"]).unknown_state_filters == ["Bogus"]
    assert transactions.list_all(wire, transactional_id_pattern="[").error_code == E.INVALID_REGULAR_EXPRESSION
