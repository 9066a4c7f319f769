import sys
from collections.abc import Callable

from barnabas.groups.offsets import Offsets, commit_record, tombstone
from barnabas.groups.records import GroupRecord
from barnabas.types import NO_PRODUCER_ID, ZERO_UUID


def committed(partition: int, offset: int, group: str = "g", topic: str = "t") -> GroupRecord:
    return commit_record(group, topic, partition, offset=offset, commit_timestamp_ms=1)


def value(offsets: Offsets, partition: int = 0, group: str = "g") -> int | None:
    found = offsets.get(group, "t", partition)
    return None if found is None else found.offset


def test_the_last_word_counts() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 1), 0, NO_PRODUCER_ID)
    offsets.apply(committed(0, 2), 1, NO_PRODUCER_ID)
    offsets.apply(committed(1, 3), 2, NO_PRODUCER_ID)
    assert (value(offsets), value(offsets, 1), len(offsets)) == (2, 3, 2)
    offsets.apply(tombstone("g", "t", 0), 3, NO_PRODUCER_ID)
    offsets.apply(tombstone("nobody", "t", 0), 4, NO_PRODUCER_ID)
    assert (value(offsets), len(offsets)) == (None, 1)


def test_nothing_is_kept_of_what_is_gone() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 1), 0, NO_PRODUCER_ID)
    offsets.apply(tombstone("g", "t", 0), 1, NO_PRODUCER_ID)
    assert offsets._committed == {}


def test_a_transaction_counts_when_it_ends() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 1), 0, NO_PRODUCER_ID)
    offsets.apply(committed(0, 2), 1, 77)
    assert value(offsets) == 1
    assert offsets.is_unstable("g", "t", 0)
    assert not offsets.is_unstable("g", "t", 1)
    assert offsets.has_open_transaction("g")
    assert not offsets.has_open_transaction("other")
    offsets.transaction_ended(77, committed=True)
    assert value(offsets) == 2
    assert not offsets.is_unstable("g", "t", 0)


def test_a_place_is_unstable_until_the_last_transaction_ends() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 1), 0, 77)
    offsets.apply(committed(0, 2), 1, 78)
    offsets.apply(committed(0, 3), 2, 78)
    offsets.transaction_ended(77, committed=True)
    assert offsets.is_unstable("g", "t", 0)
    offsets.transaction_ended(78, committed=False)
    assert not offsets.is_unstable("g", "t", 0)
    assert not offsets.has_open_transaction("g")
    assert value(offsets) == 1


def test_a_tombstone_makes_a_place_stable() -> None:
    offsets = Offsets()
    for producer_id in (77, 78):
        offsets.apply(committed(0, 1), 0, producer_id)
        offsets.apply(committed(1, 1), 1, producer_id)
    offsets.apply(tombstone("g", "t", 0), 2, NO_PRODUCER_ID)
    assert not offsets.is_unstable("g", "t", 0)
    assert offsets.is_unstable("g", "t", 1)
    offsets.apply(tombstone("g", "t", 1), 3, NO_PRODUCER_ID)
    assert not offsets.has_open_transaction("g")
    offsets.transaction_ended(77, committed=True)
    assert value(offsets) is None
    assert offsets._writers == {}


def test_open_transactions_of_other_groups_cost_nothing() -> None:
    """A fetch of offsets asks once for each partition, while each of thousands of producers has a transaction open."""
    few, many = Offsets(), Offsets()
    for offsets, transactions in ((few, 1), (many, 1_000)):
        for number in range(transactions):
            offsets.apply(committed(0, 1, group=f"group-{number}"), number, number)
    removed = tombstone("g", "t", 0)
    questions: list[Callable[[Offsets], object]] = [
        lambda offsets: offsets.is_unstable("g", "t", 0),
        lambda offsets: offsets.has_open_transaction("g"),
        lambda offsets: offsets.tombstones("g"),
        lambda offsets: offsets.apply(removed, 1, NO_PRODUCER_ID),
    ]
    for ask in questions:
        assert calls(lambda ask=ask: ask(many)) == calls(lambda ask=ask: ask(few))  # type: ignore[misc]


def calls(work: Callable[[], object]) -> int:
    """How many functions it calls, and how often it resumes a generator."""
    count = 0

    def note(_frame: object, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_an_aborted_one_does_not() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 2), 1, 77)
    offsets.transaction_ended(77, committed=False)
    offsets.transaction_ended(78, committed=True)
    assert value(offsets) is None
    assert not offsets.has_open_transaction("g")


def test_a_later_commit_outweighs_a_transaction_that_ends_after_it() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 2), 5, 77)
    offsets.apply(committed(0, 3), 6, NO_PRODUCER_ID)
    offsets.transaction_ended(77, committed=True)
    assert value(offsets) == 3


def test_tombstones_reach_into_open_transactions() -> None:
    offsets = Offsets()
    offsets.apply(committed(0, 1), 0, NO_PRODUCER_ID)
    offsets.apply(committed(0, 2), 1, 77)
    offsets.apply(committed(1, 2), 2, 77)
    offsets.apply(committed(0, 9, topic="u"), 3, 78)
    assert [each.key.partition for each in offsets.tombstones("g")] == [0, 1, 0]  # type: ignore[attr-defined]
    for record in offsets.tombstones_of_topics(["t"]):
        offsets.apply(record, 4, NO_PRODUCER_ID)
    offsets.transaction_ended(77, committed=True)
    offsets.transaction_ended(78, committed=True)
    assert list(offsets.of_group("g")) == ["u"]


def test_offsets_of_a_topic_that_had_the_same_name() -> None:
    offsets = Offsets()
    old, new = b"o" * 16, b"n" * 16
    record = commit_record("g", "t", 0, offset=5, commit_timestamp_ms=1, topic_id=old)
    offsets.apply(record, 0, NO_PRODUCER_ID)
    found = offsets.get("g", "t", 0)
    assert found is not None
    assert found.is_of_another_topic(new)
    assert not found.is_of_another_topic(old)
    assert not found.is_of_another_topic(ZERO_UUID)
    assert not found._replace(topic_id=ZERO_UUID).is_of_another_topic(new)
