"""Incremental fetch sessions: what a session remembers, what it leaves out, and when it refuses."""

from random import Random

import pytest

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from barnabas.replication.fetch_session import EVICTION_MS_MIN, FetchContext, FetchSessions

TOPIC_ID = bytes(range(16))
VERSION = 18


def request(
    session_id: int = 0, epoch: int = 0, partitions: dict[int, int] | None = None, forget: tuple[int, ...] = ()
) -> FetchRequest:
    """`partitions` maps an index to the offset to fetch."""
    wanted = [FetchPartition(partition=index, fetch_offset=offset) for index, offset in (partitions or {}).items()]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, topic="t", partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, topic="t", partitions=list(forget))] if forget else [],
    )


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, Random(1))


def begin(cache: FetchSessions, asked: FetchRequest, now_ms: float = 0, version: int = VERSION) -> FetchContext:
    context = cache.begin(asked, version, now_ms)
    assert isinstance(context, FetchContext)
    return context


def answer(context: FetchContext, **by_index: dict[str, object]) -> list[int]:
    """Which partitions are sent, given what each answers; `p3={...}` is partition 3."""
    answers = []
    for partition in context.partitions:
        index = partition.key[1]
        fields: dict[str, object] = {"records": b"", "high_watermark": 0, "log_start_offset": 0}
        answers.append((partition, PartitionData(partition_index=index, **(fields | by_index.get(f"p{index}", {})))))
    return [data.partition_index for _partition, data in context.select(answers)]


def indexes(context: FetchContext) -> list[int]:
    return [partition.key[1] for partition in context.partitions]


def test_a_full_fetch_makes_a_session_and_answers_everything() -> None:
    context = begin(sessions(), request(partitions={0: 5, 1: 6}))
    assert context.session_id > 0
    assert answer(context) == [0, 1]


def test_a_sessionless_fetch_makes_none() -> None:
    cache = sessions()
    context = begin(cache, request(epoch=-1, partitions={0: 5}))
    assert context.session_id == 0
    assert len(cache) == 0
    assert answer(context) == [0]


def test_an_incremental_fetch_remembers_all_partitions_and_sends_only_news() -> None:
    cache = sessions()
    first = begin(cache, request(partitions={0: 5, 1: 6, 2: 7}))
    answer(first)
    second = begin(cache, request(first.session_id, 1))
    assert indexes(second) == [0, 1, 2]
    assert [partition.fetch_offset for partition in second.partitions] == [5, 6, 7]
    assert answer(second) == []
    third = begin(cache, request(first.session_id, 2, {1: 9}))
    assert [partition.fetch_offset for partition in third.partitions] == [5, 9, 7]
    assert answer(third, p1={"high_watermark": 4}) == [1]


@pytest.mark.parametrize(
    "news",
    [
        {"high_watermark": 1},
        {"log_start_offset": 1},
        {"records": b"x"},
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"preferred_read_replica": 2},
    ],
)
def test_each_kind_of_news_is_sent(news: dict[str, object]) -> None:
    cache = sessions()
    first = begin(cache, request(partitions={0: 0, 1: 0}))
    answer(first)
    assert answer(begin(cache, request(first.session_id, 1)), p1=news) == [1]


def test_an_error_is_followed_by_an_answer_even_if_nothing_else_changed() -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0})).session_id
    answer(begin(cache, request(session_id, 1)), p0={"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert answer(begin(cache, request(session_id, 2))) == [0]


def test_forgotten_partitions_are_not_read_again() -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0, 1: 0})).session_id
    assert indexes(begin(cache, request(session_id, 1, forget=(0,)))) == [1]
    assert indexes(begin(cache, request(session_id, 2, {5: 0}))) == [1, 5]


def test_a_session_without_partitions_ends() -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0})).session_id
    assert begin(cache, request(session_id, 1, forget=(0,))).session_id == 0
    assert len(cache) == 0


def test_what_gave_records_goes_to_the_end_of_the_line() -> None:
    cache = sessions()
    first = begin(cache, request(partitions={0: 0, 1: 0, 2: 0}))
    answer(first, p0={"records": b"x"})
    assert indexes(begin(cache, request(first.session_id, 1))) == [1, 2, 0]


def test_a_repeated_or_lost_request_is_noticed() -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0})).session_id
    begin(cache, request(session_id, 1))
    assert cache.begin(request(session_id, 1), VERSION, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.begin(request(session_id, 3), VERSION, 0) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.begin(request(session_id + 1, 2), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_within_a_session() -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0}), version=12).session_id
    assert cache.begin(request(session_id, 1), 13, 0) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int) -> None:
    cache = sessions()
    session_id = begin(cache, request(partitions={0: 0})).session_id
    begin(cache, request(session_id, epoch, {0: 0}))
    assert cache.begin(request(session_id, 1), VERSION, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_cache_gives_no_session_unless_one_was_long_unused() -> None:
    cache = sessions(slots=2)
    old = begin(cache, request(partitions={0: 0}), now_ms=0).session_id
    used = begin(cache, request(partitions={0: 0}), now_ms=0).session_id
    begin(cache, request(used, 1), now_ms=EVICTION_MS_MIN)
    assert begin(cache, request(partitions={0: 0}), now_ms=EVICTION_MS_MIN - 1).session_id == 0
    assert begin(cache, request(partitions={0: 0}), now_ms=EVICTION_MS_MIN).session_id > 0
    assert cache.begin(request(old, 1), VERSION, EVICTION_MS_MIN) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 2
