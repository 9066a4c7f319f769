"""One member of a consumer group (KIP-848), as a value: a change makes another one.

Always holds: the epoch is that of the newest assignment that the member has been told of. `assigned` is what it may
own; `revoking` is what it must give up before it is told of anything newer. No partition is in both.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.groups.assignors.specification import Assignment
from barnabas.protocol.messages import consumer_group_current_member_assignment_value as current_value
from barnabas.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.types import Uuid

Partitions = Mapping[Uuid, Mapping[int, int]]  # by topic and number: the epoch since which a partition is the member's

NO_PARTITIONS: Partitions = {}

JOINING = 0  # the epoch of a member that joins, or joins again
LEFT = -1  # the epoch of a member that leaves
LEFT_FOR_A_WHILE = -2  # the epoch of a static member that leaves and will be back


class MemberState(IntEnum):
    """Kafka's numbers."""

    STABLE = 0  # it has all of its assignment, or what it has is all that is known yet
    UNREVOKED_PARTITIONS = 1  # it has to give up partitions first
    UNRELEASED_PARTITIONS = 2  # others have to give up partitions first
    UNKNOWN = 127  # written by a newer broker


class ClassicProtocols(NamedTuple):
    """What is known of a member that speaks the classic protocol within a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # name and metadata, the preferred first


class ConsumerMember(NamedTuple):
    member_id: str
    member_epoch: int = JOINING
    previous_member_epoch: int = LEFT
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None  # None: a dynamic member
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # subscribed by name; ascending
    expression: str = ""  # subscribed by regular expression; empty: by none
    assignor: str | None = None  # that it asks for
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS
    classic: ClassicProtocols | None = None  # None: it speaks the consumer protocol

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def moved_to(self, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions) -> "ConsumerMember":
        return self._replace(
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    # The log

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        classic = value.classic_member_metadata
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
            expression=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None
            if classic is None or not classic.supported_protocols
            else ClassicProtocols(
                classic.session_timeout_ms,
                tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
            ),
        )

    def metadata(self) -> ConsumerGroupMemberMetadataValue:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
            subscribed_topic_regex=self.expression,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None,
        )
        if self.classic is not None:
            value.classic_member_metadata = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.classic.protocols
                ],
            )
        return value

    def with_current(self, value: current_value.ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        known = value.state in tuple(MemberState)
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_read(value.assigned_partitions, value.member_epoch),
            revoking=_read(value.partitions_pending_revocation, value.member_epoch),
        )

    def current(self) -> current_value.ConsumerGroupCurrentMemberAssignmentValue:
        return current_value.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_write(self.assigned),
            partitions_pending_revocation=_write(self.revoking),
        )


def _read(topics: Sequence[current_value.TopicPartitions], member_epoch: int) -> Partitions:
    """Brokers before 4.3 wrote no epochs of single partitions: then the member's own is the best guess."""
    default = max(member_epoch, 0)
    read: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default] * len(topic.partitions)
        read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def _write(partitions: Partitions) -> list[current_value.TopicPartitions]:
    return [
        current_value.TopicPartitions(
            topic_id=topic, partitions=sorted(epochs), assignment_epochs=[epochs[each] for each in sorted(epochs)]
        )
        for topic, epochs in sorted(partitions.items())
    ]


def since_epoch(assignment: Assignment, epoch: int) -> Partitions:
    return {topic: dict.fromkeys(partitions, epoch) for topic, partitions in assignment.items()}
