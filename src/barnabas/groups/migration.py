"""A group with members changes its protocol while they are upgraded, or taken back, one by one (KIP-848).

    classic ──first heartbeat of a consumer member──▶ consumer, with classic members in it
    consumer ──last consumer member goes, or is replaced by a classic one──▶ classic

Always holds: members keep their partitions; the generation of the one kind is the epoch of the other, so that neither
ever falls. All records of a change are in one batch: a log holds the group in one form or in the other.
Does not know: requests; `consumer_heartbeat` and `classic_in_consumer` say when.
Differs from Kafka: it refuses to upgrade a group where an assignment carries user data. librdkafka's cooperative-sticky
writes some, which only says again what was assigned; so of the common assignors it is let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups import consumer_records
from barnabas.groups.assignors.specification import NOTHING, Assignment
from barnabas.groups.classic import VALUE_VERSION, ClassicGroup
from barnabas.groups.classic_member import ClassicMember
from barnabas.groups.classic_state import join_failed
from barnabas.groups.consumer_checks import Refusal, check_expression, no_room
from barnabas.groups.consumer_member import ClassicProtocols, ConsumerMember, since_epoch
from barnabas.groups.consumer_protocol import by_topic_id, encode_assignment
from barnabas.groups.group import Group
from barnabas.groups.metadata_hash import group_hash
from barnabas.groups.outcome import Answer, Draft, Moment, Outcome, Pending
from barnabas.groups.records import GroupRecord
from barnabas.groups.topics import Topics
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription, version_of
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.group_metadata_key import GroupMetadataKey
from barnabas.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from barnabas.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.groups.consumer import ConsumerGroup
    from barnabas.groups.shard import GroupShard

# Tools show it as it is, and Kafka's tests expect these words.
CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade"
)
COMMON_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})

# From classic to consumer


def upgrade(group: Group, request: ConsumerGroupHeartbeatRequest, pending: Pending) -> Outcome:
    """Makes a classic group with members a consumer group; after that the request is decided once more."""
    refusal = _check_upgrade(group, request)
    if refusal is not None:
        return refusal.answer(pending)
    assert isinstance(group, ClassicGroup)
    try:
        members = [_consumer_member(group, member) for member in group.members]
    except DecodeError as error:
        return _no_upgrade(group, f"the metadata of a member cannot be decoded: {error}").answer(pending)
    refused = [member for member in members if isinstance(member, Refusal)]
    if refused:
        return refused[0].answer(pending)
    converted = [member for member in members if not isinstance(member, Refusal)]
    draft = Draft()
    _send_back(group, draft)
    draft.records += group.tombstones()
    draft.records += _consumer_group_records(group, converted)
    return draft.outcome(group.group_id)._replace(again=True)


def _check_upgrade(group: Group, request: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    settings = group.surroundings.consumer
    if not isinstance(group, ClassicGroup):
        return _no_upgrade(group, "it is a group of another type")
    if not settings.migration.upgrades:
        return _no_upgrade(group, "group.consumer.migration.policy does not allow upgrades")
    if not group.uses_consumer_protocol:
        return _no_upgrade(group, "its members do not use the consumer protocol")
    if len(group.members) > settings.size_max:
        return _no_upgrade(group, "it has more members than a consumer group may have")
    if len(group.members) == settings.size_max:
        return no_room(settings.size_max)
    return check_expression(request)


def _no_upgrade(group: Group, reason: str) -> Refusal:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _consumer_member(group: ClassicGroup, member: ClassicMember) -> ConsumerMember | Refusal:
    """As if it had reconciled the last assignment of the classic group. Raises DecodeError."""
    assignment: Assignment = NOTHING
    if member.assignment:
        assigned = decode_assignment(member.assignment)
        if assigned.user_data and group.protocol not in COMMON_ASSIGNORS:
            return _no_upgrade(group, CUSTOM_ASSIGNOR)
        assignment = by_topic_id(assigned, group.surroundings.topics)
    names = [name for name, _metadata in member.protocols]
    protocol = group.protocol if group.protocol in names else names[0]
    subscription = decode_subscription(member.metadata(protocol or ""))
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        assigned=since_epoch(assignment, group.generation),
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
    )


def _send_back(group: ClassicGroup, draft: Draft) -> None:
    """Whoever waits for the classic rebalance joins again, and finds a consumer group."""
    for member in group.members:
        again = join_failed(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        group.members.answer_join(member, again, draft)
        if member.syncing is not None:
            draft.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            member.syncing = None


def _consumer_group_records(group: ClassicGroup, members: Sequence[ConsumerMember]) -> list[GroupRecord]:
    group_id, surroundings = group.group_id, group.surroundings
    names = {name for member in members for name in member.topics}
    metadata_hash = group_hash(names, surroundings.topics, surroundings.topic_hashes)
    return [
        *(consumer_records.member_metadata(group_id, member) for member in members),
        consumer_records.epoch(group_id, group.generation, metadata_hash),
        *(
            consumer_records.target_assignment(
                group_id, member.member_id, {topic: tuple(epochs) for topic, epochs in member.assigned.items()}
            )
            for member in members
        ),
        consumer_records.target_epoch(group_id, group.generation, 0),
        *(consumer_records.current_assignment(group_id, member) for member in members),
    ]


# From consumer to classic


def may_downgrade(
    group: ConsumerGroup, leaving: Sequence[ConsumerMember], joining: ConsumerMember | None = None
) -> bool:
    """Whether only members of the classic protocol are left, and some, once these have gone and that one is there."""
    state, surroundings = group.state, group.surroundings
    remaining = len(state.members) - len(leaving)
    classic = state.classic_member_count - sum(member.classic is not None for member in leaving)
    if joining is not None:
        remaining += 1
        classic += joining.classic is not None
    return (
        classic == remaining > 0
        and surroundings.consumer.migration.downgrades
        and remaining <= surroundings.settings.size_max
    )


def downgrade(
    group: ConsumerGroup,
    leaving: Sequence[ConsumerMember],
    answers: Sequence[Answer],
    now: Moment,
    *,
    joining: ConsumerMember | None = None,
    records: Sequence[GroupRecord] = (),
    rebalance: bool = True,
) -> Outcome:
    """`records` are those by which `joining` has taken the place of a static member, which is among `leaving`."""
    state = group.state
    left = {member.member_id for member in leaving}
    members = [member for member in state.members.values() if member.member_id not in left]
    removed = list(state.members)
    targets = dict(state.targets)
    if joining is not None:
        former = leaving[0]
        removed = [joining.member_id if each == former.member_id else each for each in removed]
        targets[joining.member_id] = state.target(former.member_id)
        members.append(joining)
    classic = _group_metadata(group, members, targets, now)
    tombstones = consumer_records.removed_group(group.group_id, removed, state.resolved)
    group_id = group.group_id

    def begin(shard: GroupShard, moment: Moment) -> Outcome:
        return _begin_classic(shard, group_id, moment, rebalance=rebalance)

    return Outcome([*records, *tombstones, classic], answers, group_id, then=begin)


def _begin_classic(shard: GroupShard, group_id: str, now: Moment, *, rebalance: bool) -> Outcome:
    """The group is a classic one now: members get their sessions, and have to join where something is to be moved."""
    group = shard.groups[group_id]
    assert isinstance(group, ClassicGroup)
    group.loaded(now)
    draft = Draft()
    if rebalance:
        group.prepare_rebalance(draft, now)
    return draft.outcome(group_id)


def _group_metadata(
    group: ConsumerGroup, members: Sequence[ConsumerMember], targets: dict[str, Assignment], now: Moment
) -> GroupRecord:
    protocol = _shared_protocol(members)
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=group.state.group_epoch,
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=now.wall_ms,
        members=[
            _classic_member(member, protocol, targets.get(member.member_id, NOTHING), group.surroundings.topics)
            for member in members
        ],
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def _shared_protocol(members: Sequence[ConsumerMember]) -> str:
    """One that all can follow, and that most prefer. There is one: nobody else was let in."""
    classics = [member.classic for member in members if member.classic is not None]
    names = [[name for name, _metadata in classic.protocols] for classic in classics]
    shared = [name for name in names[0] if all(name in each for each in names)]
    votes = [next(name for name in each if name in shared) for each in names]
    return max(shared, key=votes.count)


def _classic_member(member: ConsumerMember, protocol: str, target: Assignment, topics: Topics) -> MemberMetadata:
    assert member.classic is not None
    subscription = dict(member.classic.protocols)[protocol]
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=subscription,
        assignment=encode_assignment(target, topics, version_of(subscription)),
    )
