"""Brokers fail, come back and move in every order: no eligible replica waits, no clean election loses a record.

Seeds instead of hypothesis: a run is long, and what matters in it is too spread out to be shrunk in good time.
"""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.types import NO_LEADER
from tests.support.leadership import CLEAN, FAR, UNCLEAN_ALLOWED, Leadership

BROKERS = range(1, 5)
TOPICS = {"clean": CLEAN, "unclean": UNCLEAN_ALLOWED}
STEPS = 250


class Brokers:
    """Draws events, and tells of them."""

    def __init__(self, random: Random, *, elr: bool) -> None:
        self.random = random
        self.stopped_cleanly: set[int] = set()
        self.events: list[str] = []
        replicas = random.sample(BROKERS, random.randint(1, 3))
        min_isr = random.randint(1, 3)
        self.tell("begin", replicas, f"min_isr={min_isr}")
        self.cluster = Leadership(replicas=replicas, min_isr=min_isr, elr=elr)
        for broker_id in BROKERS:
            self.start(broker_id, promptly=True)

    def tell(self, *words: object) -> None:
        self.events.append(" ".join(map(str, words)))

    def step(self) -> None:
        events: list[tuple[Callable[[], None], int]] = [
            (self.start_one, 20),
            (self.heartbeat_one, 15),
            (self.shut_down_one, 6),
            (self.crash_one, 12),
            (self.pass_time, 12),
            (self.alter_isr, 30),
            (self.reassign, 8),
            (self.balance, 3),
            (self.elect_unclean, 2),
            (self.unregister_one, 1),
        ]
        [event] = self.random.choices([event for event, _ in events], [weight for _, weight in events])
        event()

    # Events

    def start_one(self) -> None:
        self.start(self.random.choice(BROKERS), promptly=self.random.random() < 0.7)

    def start(self, broker_id: int, *, promptly: bool) -> None:
        if broker_id in self.cluster.alive:
            return
        cleanly_stopped = broker_id in self.stopped_cleanly
        self.tell("start", broker_id, f"{cleanly_stopped=} {promptly=}")
        if self.cluster.start(broker_id, cleanly_stopped=cleanly_stopped):
            self.stopped_cleanly.discard(broker_id)
            if promptly:
                self.cluster.heartbeat(broker_id)

    def heartbeat_one(self) -> None:
        if self.cluster.alive:
            self.heartbeat(self.random.choice(sorted(self.cluster.alive)), self.random.choice([0, FAR]))

    def heartbeat(self, broker_id: int, offset: int) -> None:
        self.tell("heartbeat", broker_id, offset)
        if self.cluster.heartbeat(broker_id, offset=offset):
            self._stop(broker_id)

    def shut_down_one(self) -> None:
        if self.cluster.alive:
            broker_id = self.random.choice(sorted(self.cluster.alive))
            fence = self.random.random() < 0.3
            self.tell("shut down", broker_id, f"{fence=}")
            if self.cluster.heartbeat(broker_id, fence=fence, shut_down=True):
                self._stop(broker_id)

    def _stop(self, broker_id: int) -> None:
        self.tell("stopped", broker_id)
        del self.cluster.alive[broker_id]
        self.stopped_cleanly.add(broker_id)

    def crash_one(self) -> None:
        if self.cluster.alive:
            broker_id = self.random.choice(sorted(self.cluster.alive))
            self.tell("crash", broker_id)
            self.cluster.crash(broker_id)

    def pass_time(self) -> None:
        milliseconds = self.random.choice([100, 500, 10_000])
        self.tell("pass", milliseconds)
        self.cluster.pass_time(milliseconds)

    def alter_isr(self) -> None:
        topic = self.random.choice(sorted(TOPICS))
        state = self.cluster.partition(TOPICS[topic])
        if state.leader not in self.cluster.alive:
            return
        followers = [each for each in state.replicas if each != state.leader and self.random.random() < 0.6]
        epochs_behind = self.random.choice([0, 0, 0, 1])
        self.tell("alter isr", topic, state.leader, followers, epochs_behind)
        self.cluster.alter_isr(TOPICS[topic], [state.leader, *followers], epochs_behind=epochs_behind)

    def reassign(self) -> None:
        topic = self.random.choice(sorted(TOPICS))
        replicas = None
        if self.random.random() < 0.7:
            replicas = self.random.sample(BROKERS, self.random.randint(1, 3))
        self.tell("reassign", topic, replicas)
        self.cluster.reassign(topic, replicas)

    def balance(self) -> None:
        self.tell("balance")
        self.cluster.balance()

    def elect_unclean(self) -> None:
        self.tell("elect unclean")
        self.cluster.elect_unclean()

    def unregister_one(self) -> None:
        gone = [each for each in self.cluster.image.brokers if each not in self.cluster.alive]
        if gone:
            broker_id = self.random.choice(gone)
            self.tell("unregister", broker_id)
            self.cluster.unregister(broker_id)
            self.stopped_cleanly.discard(broker_id)

    # The end

    def recover(self) -> None:
        """Everybody comes back, and catches up."""
        self.tell("recover")
        for _ in range(3):
            self.cluster.pass_time(100_000)
            for broker_id in BROKERS:
                self.start(broker_id, promptly=True)
                self.heartbeat(broker_id, FAR)
        self.cluster.elect_unclean()
        for topic_id in TOPICS.values():
            state = self.cluster.partition(topic_id)
            if state.leader == NO_LEADER:
                # Whoever had everything stopped uncleanly, and the last leader was moved away: only an
                # administrator may decide to go on without what they had.
                assert not set(state.last_known_elr) & set(state.replicas)
                self.cluster.elect_by_hand("clean")
                state = self.cluster.partition(topic_id)
            self.cluster.alter_isr(topic_id, [state.leader, *(each for each in state.replicas if each != state.leader)])
        self.cluster.balance()

    def check_all_is_well(self) -> None:
        for topic_id in TOPICS.values():
            state = self.cluster.partition(topic_id)
            assert not state.adding_replicas
            assert not state.removing_replicas
            assert not state.eligible_leader_replicas
            assert set(state.isr) == set(state.replicas)
            assert state.leader == state.replicas[0]


@pytest.mark.parametrize("elr", [True, False], ids=["eligible", "in sync only"])
@pytest.mark.parametrize("seed", range(60))
def test_leaders_are_elected_from_those_who_have_everything(seed: int, elr: bool) -> None:
    brokers = Brokers(Random(seed), elr=elr)
    try:
        for _ in range(STEPS):
            brokers.step()
        brokers.recover()
        brokers.check_all_is_well()
    except AssertionError as error:
        states = [brokers.cluster.image.topics_by_id[topic_id].partitions[0] for topic_id in TOPICS.values()]
        error.add_note("\n".join([*brokers.events[-25:], *map(str, states)]))
        raise
