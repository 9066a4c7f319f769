"""Plans that spread replicas over brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from barnabas.cli.commands.reassign import spread
from barnabas.cli.text import CommandFailed
from barnabas.client.admin.topics import PartitionDescription, TopicDescription


def topic(*replicas: tuple[int, ...]) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            partition=number,
            leader=each[0],
            leader_epoch=0,
            replicas=each,
            isr=each,
            eligible_leader_replicas=(),
            last_known_leaders=(),
            offline_replicas=(),
        )
        for number, each in enumerate(replicas)
    )
    return TopicDescription(name="t", topic_id=None, is_internal=False, partitions=partitions)


def test_replicas_and_leaders_are_even() -> None:
    plan = spread([topic((1,), (1,), (1,), (1,), (1,), (1,))], [1, 2, 3], 2)
    assert all(len(set(replicas)) == 2 for replicas in plan.values())
    assert set(Counter(each for replicas in plan.values() for each in replicas).values()) == {4}
    assert set(Counter(replicas[0] for replicas in plan.values()).values()) == {2}


def test_what_is_even_already_stays() -> None:
    before = topic((1, 2), (2, 3), (3, 1))
    assert {key.partition: set(each) for key, each in spread([before], [1, 2, 3], None).items()} == {
        0: {1, 2},
        1: {2, 3},
        2: {3, 1},
    }


def test_brokers_that_are_not_named_lose_theirs() -> None:
    assert list(spread([topic((1,), (2,))], [3], None).values()) == [[3], [3]]


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(CommandFailed, match="2 are named"):
        spread([topic((1,))], [1, 2], 3)
