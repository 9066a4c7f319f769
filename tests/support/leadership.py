"""A cluster of which only the metadata exists: brokers fail, come back, move; leaders change who is in sync.

Every decision is carried out at once and checked against what no sequence of events may bring about. To know whether
an election could lose records, it remembers for each partition which replicas have everything that was committed. It
assumes the worst: that a commit happens in every moment in which one can, and that who stopped uncleanly lost records.
"""

from collections.abc import Sequence
from typing import Any

from barnabas.config.broker import BrokerConfig
from barnabas.controller import alter_partition, elections, lifecycle, reassignment, registration
from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import AT_FORMAT, ELIGIBLE_LEADER_REPLICAS_VERSION, SUPPORTED
from barnabas.controller.partition_change import RECOVERING
from barnabas.errors import ErrorCode
from barnabas.metadata.apply import apply
from barnabas.metadata.image import EMPTY, ConfigResource, PartitionImage, ResourceType
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.types import NO_LEADER
from tests.support.images import directory_of

CLUSTER_ID = "cluster"
FAR = 1 << 40  # an offset of the metadata log that is never reached
CLEAN, UNCLEAN_ALLOWED = b"clean-----------", b"unclean---------"
FEATURES = [
    Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
    for each in SUPPORTED
]


class Leadership:
    """Topic `clean` waits for eligible leaders, topic `unclean` rather loses records. Each has one partition."""

    def __init__(self, *, replicas: Sequence[int], min_isr: int, elr: bool = True) -> None:
        self.config = BrokerConfig({"min.insync.replicas": str(min_isr)})
        self.sessions = BrokerSessions()
        self.now_ms = 0.0
        self.incarnations: dict[int, int] = {}
        self.alive: dict[int, int] = {}  # running processes, with their broker epochs
        levels = {**AT_FORMAT, ELIGIBLE_LEADER_REPLICAS_VERSION: int(elr)}
        self.image = EMPTY._replace(
            features={name: level for name, level in levels.items() if level},
            configs={ConfigResource(ResourceType.TOPIC, "unclean"): {"unclean.leader.election.enable": "true"}},
        )
        self.complete: dict[bytes, set[int]] = {CLEAN: set(replicas), UNCLEAN_ALLOWED: set(replicas)}
        for broker_id in range(1, max(replicas) + 1):
            self.start(broker_id)
            self.heartbeat(broker_id)
        records: list[Any] = []
        for topic_id, name in ((CLEAN, "clean"), (UNCLEAN_ALLOWED, "unclean")):
            records += [
                TopicRecord(name=name, topic_id=topic_id),
                PartitionRecord(
                    partition_id=0,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(replicas),
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[directory_of(each) for each in replicas],
                ),
            ]
        self.commit(records)

    @property
    def electorate(self) -> Electorate:
        return Electorate(self.image, self.config)

    def partition(self, topic_id: bytes) -> PartitionImage:
        return self.image.topics_by_id[topic_id].partitions[0]

    # Events

    def start(self, broker_id: int, *, cleanly_stopped: bool = False) -> bool:
        """A new incarnation. False where the one before it still has a session."""
        before = self.image.brokers.get(broker_id)
        self.incarnations[broker_id] = self.incarnations.get(broker_id, 0) + 1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes([broker_id]) * 8 + self.incarnations[broker_id].to_bytes(8, "big"),
            features=FEATURES,
            log_dirs=[directory_of(broker_id)],
            previous_broker_epoch=before.epoch if before is not None and cleanly_stopped else -1,
        )
        decision = registration.register_broker(
            self.electorate, self.sessions, request, CLUSTER_ID, self.image.offset + 1, self.now_ms
        )
        if decision.response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return False
        assert decision.response.error_code == ErrorCode.NONE
        self.alive[broker_id] = decision.response.broker_epoch
        if not cleanly_stopped:
            for complete in self.complete.values():
                complete.discard(broker_id)
        self.commit(decision.records)
        return True

    def heartbeat(self, broker_id: int, *, offset: int = FAR, fence: bool = False, shut_down: bool = False) -> bool:
        """Whether the broker may stop."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.alive[broker_id],
            current_metadata_offset=offset,
            want_fence=fence,
            want_shut_down=shut_down,
        )
        decision = lifecycle.heartbeat(self.electorate, self.sessions, request, self.image.offset + 1, self.now_ms)
        self.commit(decision.records)
        return decision.response.should_shut_down

    def crash(self, broker_id: int) -> None:
        """Its connection breaks, and nobody listens there any more."""
        del self.alive[broker_id]
        self.sessions.connection_lost(broker_id)
        self.sessions.gone(broker_id, self.now_ms)

    def pass_time(self, milliseconds: float) -> None:
        self.now_ms += milliseconds
        for broker_id in self.alive:
            if self.image.brokers.get(broker_id) is not None and not self.image.brokers[broker_id].fenced:
                self.sessions.contacted(broker_id, self.alive[broker_id], FAR, self.now_ms)
        while True:
            decision = lifecycle.fence_expired(self.electorate, self.sessions, self.now_ms)
            self.commit(decision.records)
            if decision.response is None:
                return

    def alter_isr(self, topic_id: bytes, isr: Sequence[int], *, epochs_behind: int = 0) -> ErrorCode:
        """Asked by the leader. Followers that it takes in have caught up, so they have everything."""
        state = self.partition(topic_id)
        asked = RequestPartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
            partition_epoch=state.partition_epoch - epochs_behind,
        )
        request = AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=self.alive[state.leader],
            topics=[RequestTopicData(topic_id=topic_id, partitions=[asked])],
        )
        decision = alter_partition.alter_partition(self.electorate, request, 3)
        assert decision.response.error_code == ErrorCode.NONE
        answer = decision.response.topics[0].partitions[0]
        if epochs_behind:
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION, "a leader changed what it had not seen"
        if answer.error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            self.complete[topic_id] |= set(isr)
        self.commit(decision.records)
        return ErrorCode(answer.error_code)

    def reassign(self, topic: str, replicas: Sequence[int] | None) -> ErrorCode:
        asked = ReassignablePartition(partition_index=0, replicas=None if replicas is None else list(replicas))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[asked])])
        decision = reassignment.alter_reassignments(self.electorate, request)
        self.commit(decision.records)
        return ErrorCode(decision.response.responses[0].partitions[0].error_code)

    def balance(self) -> None:
        self.commit(elections.balance_leaders(self.electorate).records)

    def elect_unclean(self) -> None:
        self.commit(elections.elect_unclean_leaders(self.electorate).records)

    def elect_by_hand(self, topic: str) -> None:
        """An unclean election that somebody asks for. What was committed before it does not count any more."""
        asked = TopicPartitions(topic=topic, partitions=[0])
        request = ElectLeadersRequest(election_type=1, topic_partitions=[asked])
        decision = elections.elect_leaders(self.electorate, request)
        assert decision.response.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        self.complete = {topic_id: set(self.image.brokers) for topic_id in self.complete}
        self.image = apply(self.image, decision.records, offset=self.image.offset + len(decision.records))[0]

    def unregister(self, broker_id: int) -> None:
        self.alive.pop(broker_id, None)
        self.commit(lifecycle.unregister_broker(self.electorate, self.sessions, broker_id).records)

    # What may never be

    def commit(self, records: Sequence[Any]) -> None:
        before = self.image
        self.image, _delta = apply(before, records, offset=before.offset + len(records))
        for topic_id, topic in self.image.topics_by_id.items():
            earlier = before.topics_by_id.get(topic_id)
            self.complete[topic_id] &= set(topic.partitions[0].replicas)  # who is taken away deletes what it has
            if earlier is not None:
                self._check_change(topic_id, earlier.partitions[0], topic.partitions[0])
            self._check_state(topic_id, topic.partitions[0])
            self._write(topic_id, topic.partitions[0])

    def _check_state(self, topic_id: bytes, state: PartitionImage) -> None:
        electorate = self.electorate
        assert len(set(state.replicas)) == len(state.replicas) == len(state.directories)
        assert set(state.isr) <= set(state.replicas)
        assert set(state.eligible_leader_replicas) <= set(state.replicas)
        assert not set(state.isr) & set(state.eligible_leader_replicas)
        assert {*state.adding_replicas, *state.removing_replicas} <= set(state.replicas)
        if state.leader != NO_LEADER:
            assert state.leader in state.isr
            assert electorate.is_active(state.leader)
            if electorate.elr_enabled:
                assert all(map(electorate.is_active, state.isr)), "a fenced broker is in sync"
            return
        eligible = state.isr or state.eligible_leader_replicas
        assert not any(map(electorate.is_active, eligible)), "somebody eligible is alive, and nobody leads"
        if topic_id == UNCLEAN_ALLOWED:
            waiting = {*state.adding_replicas, *state.removing_replicas}
            others = [each for each in state.replicas if each not in waiting]
            assert not any(map(electorate.is_active, others)), "somebody is alive, all may lead, and nobody does"

    def _check_change(self, topic_id: bytes, before: PartitionImage, after: PartitionImage) -> None:
        if before is after:
            return
        assert after.partition_epoch > before.partition_epoch
        assert after.leader_epoch >= before.leader_epoch
        if after.leader == before.leader:
            return
        assert after.leader_epoch > before.leader_epoch
        if after.leader == NO_LEADER or topic_id == UNCLEAN_ALLOWED:
            return
        if not self.electorate.elr_enabled:
            assert after.leader in {*before.isr, *after.isr}
        elif after.leader not in self.complete[topic_id]:
            assert not self.complete[topic_id], "an election lost what was committed, though somebody has it"
            assert before.last_known_elr == (after.leader,), "an unclean election of another than the last leader"
            assert after.leader_recovery_state == RECOVERING
            self.complete[topic_id] = set(after.isr)

    def _write(self, topic_id: bytes, state: PartitionImage) -> None:
        """Commits wherever it can be: then those in sync have everything, and nobody else."""
        if state.leader == NO_LEADER:
            return
        if topic_id == UNCLEAN_ALLOWED or len(state.isr) >= self.electorate.min_isr(self.image.topics_by_id[topic_id]):
            self.complete[topic_id] = set(state.isr)
