"""Fetch sessions: everything first, then what changed; after a failure everything again."""

from __future__ import annotations

from barnabas.client.consuming.fetch_session import EPOCH_MAX, FetchSession, Wanted
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

ID = b"i" * 16
OTHER_ID = b"j" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def at(offset: int, topic_id: bytes = ID) -> Wanted:
    return Wanted(topic_id, offset, 3, 1000)


def asked(session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> tuple[list[object], list[object]]:
    topics, forgotten = session.request(wanted)
    return (
        [(topic.topic, each.partition, each.fetch_offset) for topic in topics for each in topic.partitions],
        [(topic.topic, topic.topic_id, number) for topic in forgotten for number in topic.partitions],
    )


def test_only_changes_are_named() -> None:
    session = FetchSession()
    assert (session.id, session.epoch) == (0, 0)
    assert asked(session, {A0: at(0), A1: at(5), B0: at(9)}) == ([("a", 0, 0), ("a", 1, 5), ("b", 0, 9)], [])
    assert session.answered(ErrorCode.NONE, 77)
    assert (session.id, session.epoch) == (77, 1)
    assert asked(session, {A0: at(0), A1: at(6)}) == ([("a", 1, 6)], [("b", ID, 0)])
    assert session.answered(ErrorCode.NONE, 77)
    assert session.epoch == 2
    assert asked(session, {A0: at(0), A1: at(6)}) == ([], [])


def test_a_topic_made_anew_is_forgotten_and_named_again() -> None:
    session = FetchSession()
    session.request({A0: at(5)})
    session.answered(ErrorCode.NONE, 77)
    assert asked(session, {A0: at(0, OTHER_ID)}) == ([("a", 0, 0)], [("a", ID, 0)])


def test_without_a_session_everything_is_named_each_time() -> None:
    session = FetchSession()
    session.request({A0: at(0)})
    assert session.answered(ErrorCode.NONE, 0)
    assert session.epoch == 0
    assert asked(session, {A0: at(0)}) == ([("a", 0, 0)], [])


def test_after_a_failure_everything_is_named_and_the_old_session_ends() -> None:
    session = FetchSession()
    session.request({A0: at(0)})
    session.answered(ErrorCode.NONE, 77)
    session.request({A0: at(1)})
    session.failed()
    assert (session.id, session.epoch) == (77, 0)
    assert asked(session, {A0: at(1)}) == ([("a", 0, 1)], [])


def test_a_session_that_the_broker_forgot_begins_anew() -> None:
    session = FetchSession()
    session.request({A0: at(0)})
    session.answered(ErrorCode.NONE, 77)
    session.request({A0: at(1)})
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert (session.id, session.epoch) == (0, 0)
    assert asked(session, {A0: at(1)}) == ([("a", 0, 1)], [])


def test_an_unanswered_request_does_not_count() -> None:
    session = FetchSession()
    session.request({A0: at(0)})
    session.answered(ErrorCode.NONE, 77)
    session.request({A0: at(1), B0: at(0)})
    assert not session.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert asked(session, {A0: at(1), B0: at(0)}) == ([("a", 0, 1), ("b", 0, 0)], [])


def test_epochs_go_round() -> None:
    session = FetchSession()
    session.id, session.epoch = 77, EPOCH_MAX
    assert session.answered(ErrorCode.NONE, 77)
    assert session.epoch == 1
