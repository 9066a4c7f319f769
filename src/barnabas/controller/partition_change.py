"""One partition's change in the making: what is wanted goes in, a PartitionChangeRecord comes out, or none.

The steps and their order are Kafka's, because the brokers of a cluster must agree about them: a reassignment whose new
replicas are in sync is completed; eligible leaders are worked out (KIP-966); a leader is elected; the rest follows.
Always holds: a leader is elected from the in-sync replicas, or where there are none from the eligible ones; the last
known leader comes back only where there are neither; anybody else only by an unclean election. Whoever leads is in
sync. A record that names a leader, the same one even, begins a leader epoch; every record raises the partition epoch.
Does not know: which brokers are alive, which configs hold; it is told.
Differs from Kafka: a replica that is taken away cannot be eligible, nor come back as the last known leader. In Kafka it
may, and lead again, with nothing, when it is assigned anew.
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.metadata.image import PartitionImage, Replicas
from barnabas.types import NO_LEADER, BrokerId, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

NO_LEADER_CHANGE = -2
RECOVERED, RECOVERING = 0, 1  # states of leader recovery: after an unclean election a leader is recovering


class Election(Enum):
    ONLINE = 0  # somebody eligible, preferably who leads already
    PREFERRED = 1  # the first of the replicas if it is eligible
    UNCLEAN = 2  # anybody who is alive, if nobody is eligible


class PartitionRules(NamedTuple):
    """What holds for the partition beyond its own state."""

    can_lead: Callable[[BrokerId], bool]  # whether the broker is alive and its directory too
    default_directory: Callable[[BrokerId], Uuid]  # of a replica that is new
    min_isr: int  # at most as many as there are replicas
    elr_enabled: bool  # whether there are eligible leader replicas (KIP-966)


class PartitionChange:
    """Set what is wanted, then ask for the `record` once."""

    __slots__ = (
        "adding",
        "before",
        "directories",
        "election",
        "elr",
        "isr",
        "leader_recovery_state",
        "number",
        "removing",
        "replicas",
        "rules",
        "topic_id",
        "unclean_shutdown",
    )

    def __init__(self, topic_id: Uuid, number: int, before: PartitionImage, rules: PartitionRules) -> None:
        self.topic_id = topic_id
        self.number = number
        self.before = before
        self.rules = rules
        self.isr = before.isr
        self.elr = before.eligible_leader_replicas
        self.replicas = before.replicas
        self.removing = before.removing_replicas
        self.adding = before.adding_replicas
        self.directories = dict(zip(before.replicas, before.directories, strict=True))
        self.leader_recovery_state = before.leader_recovery_state
        self.election = Election.ONLINE
        self.unclean_shutdown: Replicas = ()  # these may have lost what they had acknowledged

    def record(self) -> "PartitionChangeRecord | None":
        """None where nothing changes."""
        from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

        record = PartitionChangeRecord(partition_id=self.number, topic_id=self.topic_id)
        unchanged = PartitionChangeRecord(partition_id=self.number, topic_id=self.topic_id)
        self._complete_reassignment()
        self._find_eligible()
        self._elect(record)
        if record.leader == NO_LEADER_CHANGE and not set(self.before.replicas) <= set(self.replicas):
            record.leader = self.before.leader  # who follows must notice that others no longer do: a new epoch
        self._set_in_sync(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        if self.leader_recovery_state != self.before.leader_recovery_state:
            record.leader_recovery_state = self.leader_recovery_state
        return None if record == unchanged else record

    # Steps, in order

    def _complete_reassignment(self) -> None:
        """Once all that are new are in sync, those that go may go; where replicas grow fewer, all that stay must be."""
        if not self.removing and not self.adding:
            return
        isr = without(self.isr, self.removing)
        replicas = without(self.replicas, self.removing)
        needed = replicas if len(self.adding) < len(self.removing) else self.adding
        if isr and replicas and {*self.adding, *needed} <= set(isr):
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def _find_eligible(self) -> None:
        """Who leaves the in-sync replicas when there are too few of them has all that was committed meanwhile."""
        if not self.rules.elr_enabled:
            return
        if len(self.isr) >= self.rules.min_isr:
            self.elr = ()
        else:
            candidates = {*self.elr, *self.before.isr} & set(self.replicas)
            self.elr = tuple(sorted(candidates - set(self.isr) - set(self.unclean_shutdown)))

    def _elect(self, record: "PartitionChangeRecord") -> None:
        leader, unclean = self._choose()
        if leader == self.before.leader:
            return
        record.leader = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = without(self.elr, self.isr)
        if unclean:
            record.isr = [leader]
            if self.before.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _choose(self) -> tuple[BrokerId, bool]:
        """The leader, and whether it may lack something that was committed."""
        candidates = [self.before.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            candidates.insert(0, self.replicas[0])
        for replica in candidates:
            if self._is_eligible(replica):
                return replica, False
        if self._last_known_leader_is_back():
            return self.before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self.rules.can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_eligible(self, replica: BrokerId) -> bool:
        return replica in (self.isr or self.elr) and self.rules.can_lead(replica)

    def _last_known_leader_is_back(self) -> bool:
        """Where all who had everything stopped uncleanly, who led last has lost the least."""
        known = self.before.last_known_elr
        return (
            self.rules.elr_enabled
            and not self.isr
            and not self.elr
            and len(known) == 1
            and known[0] in self.replicas
            and self.rules.can_lead(known[0])
        )

    def _set_in_sync(self, record: "PartitionChangeRecord") -> None:
        """Without eligible leader replicas, the last one in sync is remembered as such even when it is gone."""
        is_unclean = record.isr is not None
        elr = () if is_unclean or not self.rules.elr_enabled else self.elr
        if elr != self.before.eligible_leader_replicas:
            record.eligible_leader_replicas = list(elr)
        if not is_unclean and self.isr != self.before.isr and (self.isr or self.rules.elr_enabled):
            record.isr = list(self.isr)

    def _set_last_known_leader(self, record: "PartitionChangeRecord") -> None:
        """Written down when it goes and nobody takes its place, forgotten as soon as somebody does."""
        if not self.rules.elr_enabled:
            return
        known = self.before.last_known_elr
        if record.leader == NO_LEADER and not known:
            record.last_known_elr = [self.before.leader]
        elif record.leader >= 0 and known:
            record.last_known_elr = []

    def _set_assignment(self, record: "PartitionChangeRecord") -> None:
        default = self.rules.default_directory
        directories = tuple(
            self.directories[replica] if replica in self.directories else default(replica) for replica in self.replicas
        )
        if directories != self.before.directories:
            record.directories = list(directories)
        if self.replicas != self.before.replicas:
            record.replicas = list(self.replicas)
        if self.removing != self.before.removing_replicas:
            record.removing_replicas = list(self.removing)
        if self.adding != self.before.adding_replicas:
            record.adding_replicas = list(self.adding)


def without(replicas: Replicas, others: Replicas) -> Replicas:
    return tuple(replica for replica in replicas if replica not in others)
