"""Cases about fetches, directories, and requests that are too large or badly formed."""

from __future__ import annotations

import struct
from typing import Any

from answer_cases import case
from dialogue import Dialogue
from group_wire import join_request, topic_id
from wire import Wire, batch, encode_request, fetch_request, framed, produce

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@case
def fetch_with_more_least_than_most_bytes(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    produce(dialogue.wire, topic, {0: batch(b"x" * 1000)})
    for least, most, of_partition in (
        (5000, 100, 1 << 20),
        (5000, 2000, 1 << 20),
        (5000, 1 << 20, 100),
        (5000, 0, 0),
        (5000, -1, 1 << 20),
        (5000, 1 << 20, -1),
        (5000, -1, -1),
        (-1, 1 << 20, 1 << 20),
        (1, 0, 1 << 20),
        (1, 1 << 20, 0),
        (0, 100, 100),
    ):
        request = fetch_request(
            topic, {0: 0}, wait_ms=2000, bytes_min=least, bytes_max=most, partition_bytes_max=of_partition
        )
        what = f"at least {least}, at most {most}, of a partition {of_partition}"
        answer = dialogue.seconds(what, lambda request=request: dialogue.wire.call(request, 12), 1.0)
        partition = answer.responses[0].partitions[0]
        dialogue.expect("error and bytes", (partition.error_code, len(partition.records or b"")))


@case
def topic_deleted_under_a_fetch(dialogue: Dialogue) -> None:
    for version in (12, 13, 17):
        topic = dialogue.topic(f"topic-{version}")
        request = fetch_request(topic, {0: 0}, wait_ms=20_000)
        request.topics[0].topic_id = topic_id(dialogue.wire, topic)
        answer = fetched_while_deleted(dialogue, topic, request, version)
        expect_gone(dialogue, f"version {version}, under the fetch", answer)
        told = dialogue.wire.call(request, version).responses[0].partitions[0]
        dialogue.expect(f"version {version}, after it", ErrorCode(told.error_code))


@case
def topic_deleted_under_a_session(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    request = fetch_request(topic, {0: 0})
    request.session_epoch = 0
    request.topics[0].topic_id = topic_id(dialogue.wire, topic)
    session_id = dialogue.wire.call(request, 17).session_id
    again = FetchRequest(
        max_wait_ms=20_000, min_bytes=1, max_bytes=1000, session_id=session_id, session_epoch=1, topics=[]
    )
    expect_gone(dialogue, "under the fetch", fetched_while_deleted(dialogue, topic, again, 17))
    again.session_epoch = 2
    told = dialogue.wire.call(again, 17)
    dialogue.expect("the next", [ErrorCode(told.error_code), ErrorCode(told.responses[0].partitions[0].error_code)])


def fetched_while_deleted(dialogue: Dialogue, topic: str, request: FetchRequest, version: int) -> Any:
    """What a fetch that waits is told when its topic is deleted. It comes long before the fetch has waited enough."""
    with Wire(dialogue.address) as other:
        dialogue.wire.send(request, version)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=b"\0" * 16)], timeout_ms=10_000)
        other.call(delete, 6)
        return dialogue.seconds("answered", lambda: dialogue.wire.receive(FetchRequest.API_KEY, version)[1], 10.0)


def expect_gone(dialogue: Dialogue, what: str, answer: Any) -> None:
    """Which of the two errors Kafka gives depends on how far the deletion has come."""
    gone = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    told = answer.responses[0].partitions[0].error_code
    dialogue.expect(what, [ErrorCode(answer.error_code), "gone" if told in gone else ErrorCode(told)])


@case
def replica_directories(dialogue: Dialogue) -> None:
    topic = dialogue.topic(partitions=2)
    current = dialogue.wire.call(DescribeLogDirsRequest(topics=None), 4).results[0].log_dir
    for version in (1, 2):
        for path, topics in (
            (current, [(topic, [0, 1])]),
            (current, [(topic, [0, 7])]),
            (current, [("missing", [0])]),
            (current, [(topic, [0, 0])]),
            (current, [("bad/name", [0])]),
            (current, [(topic, [-1])]),
            (f"{current}/", [(topic, [0])]),
            (f"{current}/.", [(topic, [0])]),
            ("/no/such/directory", [(topic, [0, 7])]),
            ("/no/such/directory", [("missing", [0])]),
            ("relative", [(topic, [0])]),
            ("", [(topic, [0])]),
            ("any", [(topic, [0])]),
            (current, []),
            (current, [(topic, [])]),
        ):
            entry = AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics]
            )
            dialogue.note(path.replace(current, "CURRENT"))
            ask_to_move(dialogue, [entry], version)
    both = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
        for path in (current, "/no/such/directory")
    ]
    ask_to_move(dialogue, both, 2)
    ask_to_move(dialogue, [], 2)


def ask_to_move(dialogue: Dialogue, directories: list[AlterReplicaLogDir], version: int) -> None:
    """The answer in an order of its own: Kafka's follows from hashes."""
    answer = dialogue.wire.call(AlterReplicaLogDirsRequest(dirs=directories), version)
    found = [
        (topic.topic_name, each.partition_index, ErrorCode(each.error_code).name)
        for topic in answer.results
        for each in topic.partitions
    ]
    dialogue.expect(f"version {version}", sorted(found))


@case
def many_partitions(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    dialogue.group()
    count = 10_500
    dialogue.note("Metadata")
    names = [MetadataRequestTopic(name=f"missing-{index}") for index in range(count)]
    answer = dialogue.wire.call(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    dialogue.expect("topics", (len(answer.topics), answer.topics[-1].error_code))
    dialogue.note("ListOffsets")
    indexes = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]
    answer = dialogue.wire.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=indexes)]), 7)
    expect_partitions(dialogue, answer.topics[0].partitions)
    dialogue.note("Fetch")
    answer = dialogue.wire.call(fetch_request(topic, dict.fromkeys(range(count), 0)), 12)
    dialogue.expect("error", ErrorCode(answer.error_code))
    expect_partitions(dialogue, answer.responses[0].partitions)
    dialogue.note("OffsetCommit")
    commits = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(count)]
    request = OffsetCommitRequest(
        group_id=dialogue.name("group"), topics=[OffsetCommitRequestTopic(name=topic, partitions=commits)]
    )
    expect_partitions(dialogue, dialogue.wire.call(request, 9).topics[0].partitions)


def expect_partitions(dialogue: Dialogue, partitions: list[Any]) -> None:
    errors = sorted(each.error_code for each in partitions)
    dialogue.expect("partitions", [(ErrorCode(error), errors.count(error)) for error in sorted(set(errors))])


@case
def invalid_utf8(dialogue: Dialogue) -> None:
    """A string is bytes that Java decodes leniently; what becomes of those that are no UTF-8."""
    marker = "MARKED"
    for version in (9, 12):
        for bad in (
            b"a\xffb!!!",
            b"\xc3\x28!!!!",
            b"\xed\xa0\x80!!!",
            b"\xf0\x9f\x98!!!",
            b"\xc0\x80!!!!",
            b"ok\x00!!!",
        ):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=marker)], allow_auto_topic_creation=False)
            frame = encode_request(request, version, 1).replace(marker.encode(), bad)
            (told,) = dialogue.answer_to(frame, 3, version).topics
            dialogue.expect(f"Metadata, version {version}, of {bad!r}", told)
    bad_client = struct.pack(">hhih", 18, 0, 7, 3) + b"\xff\xfe\xfd"
    dialogue.expect("client id", ErrorCode(dialogue.answer_to(framed(bad_client), 18, 0).error_code))
    group = dialogue.group()
    frame = encode_request(join_request(f"{group}MARKED", session_ms=1), 9, 3).replace(b"MARKED", b"a\xff\xfeb!!")
    dialogue.expect("JoinGroup", dialogue.answer_to(frame, 11, 9))
    frame = encode_request(DescribeGroupsRequest(groups=["MARKED"]), 6, 4).replace(b"MARKED", b"a\xff\xfeb!!")
    dialogue.expect("DescribeGroups", dialogue.answer_to(frame, 15, 6))
    frame = encode_request(FindCoordinatorRequest(coordinator_keys=["MARKED"]), 6, 5).replace(
        b"MARKED", b"a\xff\xfeb!!"
    )
    dialogue.expect("FindCoordinator", dialogue.answer_to(frame, 10, 6))
