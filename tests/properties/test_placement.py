"""Where replicas go, for any cluster: what placement promises, and how even it is."""

import sys
from collections import Counter
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from images import broker

from barnabas.controller.placement import ReplicaPlacer
from barnabas.metadata.image import BrokerImage, Replicas

clusters = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9).map(
    lambda states: [
        broker(number, rack=rack, fenced=fenced and number > 0) for number, (rack, fenced) in enumerate(states)
    ]
)


def place(brokers: list[BrokerImage], partitions: int, replication_factor: int, seed: int) -> list[Replicas]:
    placed = ReplicaPlacer(Random(seed)).place(brokers, partitions, replication_factor)
    assert isinstance(placed, list), placed
    return placed


@given(clusters, st.integers(1, 30), st.data())
def test_what_always_holds(brokers: list[BrokerImage], partitions: int, data: st.DataObject) -> None:
    replication_factor = data.draw(st.integers(1, len(brokers)))
    by_id = {each.id: each for each in brokers}
    racks = {each.rack for each in brokers}
    placed = place(brokers, partitions, replication_factor, data.draw(st.integers(0, 1000)))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == replication_factor
        assert not by_id[replicas[0]].fenced
        used = {by_id[replica].rack for replica in replicas}
        assert len(used) == min(len(racks), replication_factor), "a rack has two replicas while another has none"


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 1000))
def test_leaders_are_even_without_racks(count: int, rounds: int, seed: int) -> None:
    brokers = [broker(number) for number in range(count)]
    leaders = Counter(replicas[0] for replicas in place(brokers, count * rounds, 1, seed))
    assert set(leaders.values()) == {rounds}


@given(st.integers(1, 3), st.integers(2, 3), st.integers(0, 1000))
def test_leaders_are_even_over_equal_racks(per_rack: int, rack_count: int, seed: int) -> None:
    brokers = [broker(number, rack=str(number % rack_count)) for number in range(per_rack * rack_count)]
    placed = place(brokers, len(brokers) * 4, rack_count, seed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {4}


@given(clusters, st.integers(0, 1000))
def test_the_same_seed_gives_the_same_places(brokers: list[BrokerImage], seed: int) -> None:
    assert place(brokers, 10, 1, seed) == place(brokers, 10, 1, seed)
