from random import Random

from images import broker, cluster, directory_of

from barnabas.controller.placement import ReplicaPlacer, default_directory, is_usable
from barnabas.metadata.image import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, Replicas


class NoRandom(Random):
    """Starts everything at 0 and leaves order as it is, so that the pattern itself shows."""

    def __init__(self) -> None:
        super().__init__(0)

    def randrange(self, *args: int) -> int:
        return 0

    def shuffle(self, x: object) -> None:
        pass


def placed(brokers: list[tuple[int, str | None]], partitions: int, replication_factor: int) -> list[Replicas]:
    images = [broker(broker_id, rack=rack) for broker_id, rack in brokers]
    replicas = ReplicaPlacer(NoRandom()).place(images, partitions, replication_factor)
    assert isinstance(replicas, list)
    return replicas


def test_racks_and_brokers_take_turns() -> None:
    nine = [(10 * rack + number, "ABC"[rack]) for rack in range(3) for number in range(3)]
    assert placed(nine, 4, 3) == [(0, 10, 20), (10, 20, 0), (20, 0, 10), (1, 11, 21)]


def test_each_broker_of_equal_racks_leads_once_before_any_leads_twice() -> None:
    four = [(1, "a"), (2, "a"), (3, "b"), (4, "b")]
    assert placed(four, 4, 2) == [(1, 3), (3, 1), (2, 4), (4, 2)]


def test_leaders_take_turns_without_racks() -> None:
    leaders = [replicas[0] for replicas in placed([(number, None) for number in range(4)], 8, 1)]
    assert sorted(leaders[:4]) == sorted(leaders[4:]) == [0, 1, 2, 3]


def test_a_small_rack_has_a_replica_of_every_partition() -> None:
    for replicas in placed([(1, "a"), (2, "a"), (3, "a"), (9, "b")], 12, 2):
        assert 9 in replicas


def test_more_replicas_than_racks() -> None:
    for replicas in placed([(1, "a"), (2, "a"), (3, "b"), (4, "b")], 8, 3):
        assert len(set(replicas)) == 3


def test_fenced_brokers_come_last_and_never_lead() -> None:
    brokers = [broker(1, fenced=True), broker(2), broker(3)]
    pairs = ReplicaPlacer(Random(3)).place(brokers, 20, 2)
    assert {frozenset(pair) for pair in pairs} == {frozenset({2, 3})}
    for replicas in ReplicaPlacer(Random(3)).place(brokers, 20, 3):
        assert replicas[-1] == 1 or replicas[1] == 1
        assert replicas[0] != 1


def test_a_rack_of_fenced_brokers_leads_nothing() -> None:
    brokers = [broker(1, rack="a", fenced=True), broker(2, rack="b")]
    for replicas in ReplicaPlacer(Random(3)).place(brokers, 10, 2):
        assert replicas == (2, 1)


def test_why_there_is_no_place() -> None:
    placer = ReplicaPlacer(Random(3))
    assert "replication factor of 2 cannot be reached" in placer.place([broker(1)], 1, 2)
    assert "fenced" in placer.place([broker(1, fenced=True)], 1, 1)
    assert "replication factor of 1 cannot be reached" in placer.place([], 1, 1)


def test_who_is_usable() -> None:
    assert is_usable(broker(1, fenced=True))
    assert not is_usable(broker(1, in_controlled_shutdown=True))
    assert is_usable(broker(1, in_controlled_shutdown=True, fenced=True)), "it has shut down, and will be back"
    assert not is_usable(broker(1, cordoned_directories=(directory_of(1),)))
    assert is_usable(broker(1, directories=()))


def test_the_directory_of_a_new_replica() -> None:
    several = broker(2, directories=(directory_of(2), directory_of(3)))
    image = cluster(broker(1), several, broker(4, directories=()))
    assert default_directory(image, 1) == directory_of(1)
    assert default_directory(image, 2) == DIRECTORY_UNASSIGNED
    assert default_directory(image, 4) == DIRECTORY_MIGRATING
    cordoned = cluster(several._replace(cordoned_directories=(directory_of(2),)))
    assert default_directory(cordoned, 2) == directory_of(3)
