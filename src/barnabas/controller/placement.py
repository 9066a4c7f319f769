"""Where the replicas of new partitions go.

Racks take turns to lead, and when each has led once, the next broker of each rack takes its turn:

    racks A and B of two brokers each:    A0 B0    B0 A0    A1 B1    B1 A1    then the order is drawn anew

Always holds: no broker twice in a partition; the first replica, the leader to be, is not fenced; a rack gets a second
replica only when every rack has one or is used up; fenced brokers only where their rack has no other left.
Over racks of equal size, each broker leads equally often. Drawing anew whenever each has led once varies who stands
by whom, so that the load of a broker that fails spreads; the random start keeps many small topics from piling up on
the first broker. (Kafka's placer moves to the next broker with each partition: with two racks of two, two of the four
then never lead until its order is drawn anew.)
"""

from collections.abc import Iterable
from random import Random

from barnabas.metadata.image import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerImage,
    MetadataImage,
    Replicas,
)
from barnabas.types import BrokerId, Uuid


class ReplicaPlacer:
    def __init__(self, random: Random) -> None:
        self._random = random

    def place(self, brokers: Iterable[BrokerImage], partitions: int, replication_factor: int) -> list[Replicas] | str:
        """The replicas of each partition, or the reason why there is no place for them."""
        assert replication_factor > 0
        usable = [broker for broker in brokers if is_usable(broker)]
        if replication_factor > len(usable):
            return (
                f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
                "broker(s) are registered."
            )
        if all(broker.fenced for broker in usable):
            return "All brokers are currently fenced."
        racks = _Racks(usable, self._random)
        return [racks.place(replication_factor) for _ in range(partitions)]


def is_usable(broker: BrokerImage) -> bool:
    """Whether new replicas may go there: not while it shuts down, nor where each of its directories is cordoned.

    A broker that has shut down is fenced, and may get replicas as any fenced broker may: it will be back.
    """
    if broker.in_controlled_shutdown and not broker.fenced:
        return False
    return not broker.directories or any(
        directory not in broker.cordoned_directories for directory in broker.directories
    )


def default_directory(image: MetadataImage, broker_id: BrokerId) -> Uuid:
    """Where the replica lives, as far as the controller can tell: a broker with several directories chooses itself."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.directories:
        return DIRECTORY_MIGRATING
    open_directories = [directory for directory in broker.directories if directory not in broker.cordoned_directories]
    return open_directories[0] if len(open_directories) == 1 else DIRECTORY_UNASSIGNED


class _Turns:
    """Brokers that take turns."""

    def __init__(self, broker_ids: list[BrokerId], random: Random) -> None:
        self.broker_ids = sorted(broker_ids)
        self._first = random.randrange(len(broker_ids)) if broker_ids else 0
        self._start = 0  # who is asked first for the partition at hand
        self._served = 0  # for the partition at hand

    def begin(self, lap: int) -> None:
        self._start = self._first + lap
        self._served = 0

    def next(self) -> BrokerId | None:
        if self._served == len(self.broker_ids):
            return None
        broker_id = self.broker_ids[(self._start + self._served) % len(self.broker_ids)]
        self._served += 1
        return broker_id


class _Rack:
    def __init__(self, brokers: list[BrokerImage], random: Random) -> None:
        self.unfenced = _Turns([broker.id for broker in brokers if not broker.fenced], random)
        self.fenced = _Turns([broker.id for broker in brokers if broker.fenced], random)

    def begin(self, lap: int) -> None:
        self.unfenced.begin(lap)
        self.fenced.begin(lap)

    def next(self) -> BrokerId | None:
        broker_id = self.unfenced.next()
        return self.fenced.next() if broker_id is None else broker_id


class _Racks:
    def __init__(self, brokers: list[BrokerImage], random: Random) -> None:
        by_name: dict[str, list[BrokerImage]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack or "", []).append(broker)
        self._random = random
        self._racks = [_Rack(by_name[name], random) for name in sorted(by_name)]
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._first = random.randrange(len(self._racks))
        self._partition = 0

    def place(self, replication_factor: int) -> Replicas:
        if self._unfenced_count > 1 and self._partition > 0 and self._partition % self._unfenced_count == 0:
            self._shuffle()
        count = len(self._racks)
        lap, lead = divmod(self._partition, count)
        self._partition += 1
        turn = [self._racks[(self._first + lead + step) % count] for step in range(count)]
        for rack in turn:
            rack.begin(lap)
        leader_step, leader = self._leader(turn)
        replicas = [leader]
        is_first_round = True  # in which the leader's rack has had its share
        while True:
            for step, rack in enumerate(turn):
                if len(replicas) == replication_factor:
                    return tuple(replicas)
                if is_first_round and step == leader_step:
                    continue
                broker_id = rack.next()
                if broker_id is not None:
                    replicas.append(broker_id)
            is_first_round = False

    def _leader(self, turn: list[_Rack]) -> tuple[int, BrokerId]:
        for step, rack in enumerate(turn):
            broker_id = rack.unfenced.next()
            if broker_id is not None:
                return step, broker_id
        raise AssertionError("no broker is unfenced")

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            self._random.shuffle(rack.unfenced.broker_ids)
            self._random.shuffle(rack.fenced.broker_ids)
