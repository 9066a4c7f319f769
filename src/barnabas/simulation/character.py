"""What the seed makes of a run: its settings, its clients and their habits, its faults.

Always holds: a character depends on the seed's chance and the number of nodes, and on nothing else; it is drawn first.
Does not know: how a run goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from barnabas.simulation.faults import FaultPlan
from barnabas.simulation.participants import Habits
from barnabas.simulation.reading_application import GroupHabits

GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
}

STAMP_BYTES_MAX = 120  # what a value says about itself takes no more
TRANSACTION_RATE = 0.4  # of runs that have transactional clients
TABLE_RATE = 0.3  # of runs that have compacted topics
BUSY_THINK_MS = 200.0
DAY_MS = 86_400_000
CONFIGURED_RATE = 0.4  # of runs that change voters: those that begin with the ones of the configuration
EAGER_RATE = 0.3  # of runs that compact whatever they can, all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """A transactional application, and perhaps another one with the same transactional id."""

    timeout_ms: int
    has_twin: bool


@dataclass(slots=True, kw_only=True)
class Character:
    """What the seed makes of a run."""

    power: bool  # machines may lose what they did not sync; then one alone syncs each message
    settings: dict[str, str] = field(default_factory=dict)
    habits: Habits
    plan: FaultPlan
    sync_ms_max: float
    timeout_ms: float
    producers: list[tuple[int, bool]]  # acks, idempotent
    consumers: list[bool]  # with sessions
    members: int = 0  # of the one group
    applications: list[tuple[int, bool]] = field(default_factory=list)  # that produce: acks, idempotent
    readers: list[bool] = field(default_factory=list)  # with read_committed
    group: GroupHabits
    static_members: bool = False
    restarts_at_end: bool
    changes_voters: bool
    configures_voters: bool = True  # as they begin; to be changed, they must go into the log
    copiers: list[Copier] = field(default_factory=list)
    copying_group: GroupHabits | None = None
    transaction_version: int = 2
    keyed_producers: int = 0

    @property
    def is_transactional(self) -> bool:
        return bool(self.copiers)

    @property
    def syncs_each_batch(self) -> bool:
        return self.settings["log.flush.interval.messages"] == "1"

    @classmethod
    def drawn(cls, random: Random, nodes: int) -> Character:
        power = random.random() < 0.5
        changes_voters = nodes > 1 and random.random() < 0.3
        records_max = random.choice((1, 5, 20))
        value_bytes_max = random.choice((50, 300, 2000))
        batch_bytes_max = 100 + records_max * (max(value_bytes_max, STAMP_BYTES_MAX) + 30)  # must fit into a segment
        topic_settings = {
            "internal.segment.bytes": str(batch_bytes_max * random.choice((1, 5, 50))),
            "index.interval.bytes": str(random.choice((100, 4096))),
            "segment.index.bytes": str(random.choice((200, 2000, 20_000))),
            "file.delete.delay.ms": str(random.choice((0, 1000, 60_000))),
        }
        if random.random() < 0.3:
            topic_settings["retention.bytes"] = str(random.choice((5000, 50_000)))
        character = cls(
            power=power,
            settings={
                "log.retention.check.interval.ms": str(random.choice((1000, 10_000))),
                "log.flush.offset.checkpoint.interval.ms": str(random.choice((500, 5000, 60_000))),
                "replica.high.watermark.checkpoint.interval.ms": str(random.choice((500, 5000))),
                "auto.create.topics.enable": "false",
                "offsets.topic.num.partitions": "2",
                "offsets.topic.replication.factor": str(min(nodes, 3)),
                "min.insync.replicas": "2" if nodes >= 3 else "1",
                "log.flush.interval.messages": "1" if power and nodes == 1 else str((1 << 63) - 1),
                **(drawn_cluster_settings(random) if nodes > 1 else {}),
                **GROUP_SETTINGS,
            },
            habits=Habits(
                think_ms_max=random.choice((50.0, 200.0, 600.0)),
                records_max=records_max,
                value_bytes_max=value_bytes_max,
                give_up_rate=random.choice((0.0, 0.02, 0.2)),
                seek_rate=random.choice((0.0, 0.02)),
                topic_settings=topic_settings,
                replication_factor=min(nodes, 3),
                begins_alone=nodes > 1,
                changes_voters=changes_voters,
                moves_partitions=nodes > 1 and random.random() < 0.5,
                churn_names=("churn-0", "churn-1"),
            ),
            plan=FaultPlan.drawn(random, power=power, nodes=nodes),
            sync_ms_max=random.choice((0.1, 2.0, 20.0)),
            timeout_ms=random.choice((1000.0, 5000.0)),
            producers=[
                random.choice(((-1, True), (-1, True), (-1, False), (1, False), (1, True), (0, False)))
                for _ in range(random.randint(1, 2))
            ],
            consumers=[random.random() < 0.6],
            group=drawn_group(random, "group"),
            restarts_at_end=random.random() < 0.5,
            changes_voters=changes_voters,
        )
        character._draw_more(random, nodes)
        return character

    def _draw_more(self, random: Random, nodes: int) -> None:
        """Applications, transactions, compacted topics, and how eagerly they are compacted."""
        self.applications = [
            random.choice(((-1, True), (-1, True), (-1, False), (1, False), (0, False)))
            for _ in range(random.randint(1, 2))
        ]
        self.readers = [random.random() < 0.5 for _ in range(random.randint(1, 2))]
        self.members = random.choice((0, 0, 2, 3, 4))
        self.static_members = random.random() < 0.3
        if random.random() < TRANSACTION_RATE:
            self._draw_transactions(random, nodes)
        if random.random() < TABLE_RATE:
            self.keyed_producers = random.choice((1, 2))
            self.habits.table_names = ("accounts",)
        if self.copiers or self.keyed_producers:
            habits = self.habits
            habits.think_ms_max = max(habits.think_ms_max, BUSY_THINK_MS)  # there are more who work
        if random.random() < EAGER_RATE:
            self.settings.update(drawn_cleaner_settings(random, nodes))
        if self.changes_voters:
            self.configures_voters = random.random() < CONFIGURED_RATE

    def _draw_transactions(self, random: Random, nodes: int) -> None:
        self.settings |= {
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": str(min(nodes, 3)),
            "transaction.state.log.min.isr": "2" if nodes >= 3 else "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(random.choice((300, 2000))),
        }
        self.copiers = [
            Copier(timeout_ms=random.choice((2000, 10_000)), has_twin=random.random() < 0.3)
            for _ in range(random.choice((1, 2)))
        ]
        self.copying_group = replace(drawn_group(random, "copiers"), commits_itself=False)
        self.transaction_version = random.choice((1, 2, 2))
        self.readers[:] = [True]
        self.members = min(self.members, 2)
        del self.producers[1:], self.applications[1:]  # there is enough to do


def drawn_group(random: Random, name: str) -> GroupHabits:
    return GroupHabits(
        name=name,
        protocol=random.choice(("classic", "consumer")),
        strategy=random.choice(("range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky")),
        commits_itself=random.random() < 0.3,
    )


def drawn_cleaner_settings(random: Random, nodes: int) -> dict[str, str]:
    """A replica that is away for longer than tombstones and markers are kept never hears of them (KIP-534)."""
    return {
        "log.roll.ms": str(random.choice((200, 1000))),
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.0",
        "log.cleaner.delete.retention.ms": str(random.choice((0, 1000)) if nodes == 1 else DAY_MS),
    }


def drawn_cluster_settings(random: Random) -> dict[str, str]:
    """How soon others are given up."""
    return {
        "replica.lag.time.max.ms": str(random.choice((2000, 5000, 30_000))),
        "broker.session.timeout.ms": str(random.choice((3000, 9000))),
        "broker.heartbeat.interval.ms": str(random.choice((300, 1000))),
        "leader.imbalance.check.interval.seconds": str(random.choice((1, 300))),
    }


def chance_of(seed: int) -> Random:
    """All chance of a run; its character is drawn first."""
    return Random(f"barnabas {seed}")
