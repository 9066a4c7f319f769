"""Groups of every kind: classic ones, those of the consumer protocol, share groups and streams groups."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from barnabas.client.admin.base import AdminBase, listed
from barnabas.client.admin.results import Results
from barnabas.client.errors import UnsupportedVersionError
from barnabas.errors import ErrorCode
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.types import BrokerId, TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
DEAD = "Dead"
LEAVE_MANY_SINCE_VERSION = 3
STATES_SINCE_VERSION = 4
TYPES_SINCE_VERSION = 5


class GroupKind(Enum):
    """As ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """`state` is None where the broker is too old to tell it."""

    group_id: str
    kind: GroupKind
    protocol_type: str
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """What is None or empty has no meaning for that kind of group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    epoch: int | None
    topics: tuple[str, ...]
    pattern: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    kind: GroupKind
    protocol_type: str
    state: str
    coordinator: BrokerId
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    members: tuple[MemberDescription, ...]


class Groups(AdminBase):
    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        kinds: Iterable[GroupKind] = (),
        timeout_ms: float | None = None,
    ) -> Results[BrokerId, list[GroupListing]]:
        """What each broker coordinates: a broker that cannot be asked may hide some."""
        state_filter, kind_filter = listed(states, "states"), [kind.value for kind in kinds]
        least = TYPES_SINCE_VERSION if kind_filter else STATES_SINCE_VERSION if state_filter else 0

        async def ask(node_id: BrokerId, nodes: list[BrokerId]) -> Results[BrokerId, list[GroupListing]]:
            request = ListGroupsRequest(states_filter=state_filter, types_filter=kind_filter)
            response = await self.cluster.request(node_id, request, version_min=least)
            listings = [
                GroupListing(
                    group_id=each.group_id,
                    kind=_kind(each.group_type),
                    protocol_type=each.protocol_type,
                    state=each.group_state or None,
                )
                for each in response.groups
            ]
            found: Results[BrokerId, list[GroupListing]] = Results()
            found.add(node_id, response.error_code, listings, about=f"groups of broker {node_id}")
            return found

        return await self.of_all_brokers(ask, what="listing groups", timeout_ms=timeout_ms)

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, GroupDescription]:
        """Of whatever kind each is. GROUP_ID_NOT_FOUND where there is no such group."""
        wanted = listed(group_ids, "group_ids")
        return await self.carry_out(
            wanted, self.to_coordinators, self._describe, what="describing groups", timeout_ms=timeout_ms
        )

    async def _describe(self, node_id: BrokerId, group_ids: list[str]) -> Results[str, GroupDescription]:
        """Each kind has its request, and each knows only its own: what is not found by one is asked of the next."""
        results: Results[str, GroupDescription] = Results()
        left = group_ids
        kinds: list[Callable[[BrokerId, list[str]], Awaitable[Results[str, GroupDescription]]]] = [
            partial(self._describe_modern, GroupKind.CONSUMER),
            self._describe_classic,
            partial(self._describe_modern, GroupKind.SHARE),
            partial(self._describe_modern, GroupKind.STREAMS),
        ]
        for ask in kinds:
            if not left:
                break
            try:
                results.merge(await ask(node_id, left))
            except UnsupportedVersionError:  # the broker knows no groups of that kind
                continue
            left = [each for each in left if each not in results.done and _is_elsewhere(results.failed.get(each))]
        results.failed = {key: error for key, error in results.failed.items() if key not in results.done}
        return self.heed(results)

    async def _describe_modern(
        self, kind: GroupKind, node_id: BrokerId, group_ids: list[str]
    ) -> Results[str, GroupDescription]:
        requests: dict[GroupKind, Any] = {
            GroupKind.CONSUMER: ConsumerGroupDescribeRequest,
            GroupKind.SHARE: ShareGroupDescribeRequest,
            GroupKind.STREAMS: StreamsGroupDescribeRequest,
        }
        response = await self.cluster.request(node_id, requests[kind](group_ids=group_ids))
        found: Results[str, GroupDescription] = Results()
        for each in response.groups:
            description = GroupDescription(
                group_id=each.group_id,
                kind=kind,
                protocol_type=CONSUMER_PROTOCOL_TYPE if kind is GroupKind.CONSUMER else kind.value,
                state=each.group_state,
                coordinator=node_id,
                assignor=getattr(each, "assignor_name", ""),
                epoch=each.group_epoch,
                assignment_epoch=each.assignment_epoch,
                members=tuple(_modern_member(kind, member) for member in each.members),
            )
            found.add(each.group_id, each.error_code, description, each.error_message, about=f"group {each.group_id}")
        return found

    async def _describe_classic(self, node_id: BrokerId, group_ids: list[str]) -> Results[str, GroupDescription]:
        response = await self.cluster.request(node_id, DescribeGroupsRequest(groups=group_ids))
        found: Results[str, GroupDescription] = Results()
        for each in response.groups:
            code = each.error_code
            if code == ErrorCode.NONE and each.group_state == DEAD:  # how older versions say it
                code = ErrorCode.GROUP_ID_NOT_FOUND
            is_consumer = each.protocol_type == CONSUMER_PROTOCOL_TYPE
            description = GroupDescription(
                group_id=each.group_id,
                kind=GroupKind.CLASSIC,
                protocol_type=each.protocol_type,
                state=each.group_state,
                coordinator=node_id,
                assignor=each.protocol_data,
                epoch=None,
                assignment_epoch=None,
                members=tuple(_classic_member(member, is_consumer) for member in each.members),
            )
            found.add(each.group_id, code, description, each.error_message, about=f"group {each.group_id}")
        return found

    async def delete_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> Results[str, None]:
        """With their offsets. NON_EMPTY_GROUP while a group has members."""

        async def ask(node_id: BrokerId, ids: list[str]) -> Results[str, None]:
            response = await self.cluster.request(node_id, DeleteGroupsRequest(groups_names=ids))
            found: Results[str, None] = Results()
            for each in response.results:
                found.add(each.group_id, each.error_code, None, about=f"group {each.group_id}")
            return self.heed(found)

        wanted = listed(group_ids, "group_ids")
        return await self.carry_out(wanted, self.to_coordinators, ask, what="deleting groups", timeout_ms=timeout_ms)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str | None = None,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """By instance id, by member id, or all that there are where neither is given. The results are by these."""
        instances, members = listed(instance_ids, "instance_ids"), listed(member_ids, "member_ids")
        if not instances and not members:
            described = (await self.describe_groups([group_id], timeout_ms=timeout_ms)).one(group_id)
            instances = [each.instance_id for each in described.members if each.instance_id is not None]
            members = [each.member_id for each in described.members if each.instance_id is None]

        async def ask(node_id: BrokerId, _ids: list[str]) -> Results[str, Results[str, None]]:
            request = LeaveGroupRequest(
                group_id=group_id,
                members=[
                    *(MemberIdentity(member_id="", group_instance_id=each, reason=reason) for each in instances),
                    *(MemberIdentity(member_id=each, reason=reason) for each in members),
                ],
            )
            response = await self.cluster.request(node_id, request, version_min=LEAVE_MANY_SINCE_VERSION)
            removed: Results[str, None] = Results()
            for each in response.members:
                key = each.member_id if each.group_instance_id is None else each.group_instance_id
                is_absent = each.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                words = "there is no such member" if is_absent else None
                removed.add(key, each.error_code, None, words, about=f"member {key} of group {group_id}")
            found: Results[str, Results[str, None]] = Results()
            found.add(group_id, response.error_code, removed, about=f"group {group_id}")
            return self.heed(found)

        if not instances and not members:
            return Results()
        outcome = await self.carry_out(
            [group_id], self.to_coordinators, ask, what="removing members", timeout_ms=timeout_ms
        )
        return outcome.one(group_id)


def _kind(name: str) -> GroupKind:
    """A broker that does not tell knows classic groups alone."""
    lower = name.lower()
    known = {kind.value: kind for kind in GroupKind}
    return known.get(lower, GroupKind.UNKNOWN) if lower else GroupKind.CLASSIC


def _is_elsewhere(error: Exception | None) -> bool:
    """Whether a group that one request does not know may be of another kind."""
    return error is None or getattr(error, "code", None) in (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _modern_member(kind: GroupKind, member: Any) -> MemberDescription:
    has_topics = kind is not GroupKind.STREAMS
    return MemberDescription(
        member_id=member.member_id,
        instance_id=getattr(member, "instance_id", None),
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id,
        epoch=member.member_epoch,
        topics=tuple(member.subscribed_topic_names) if has_topics else (),
        pattern=getattr(member, "subscribed_topic_regex", None) or None,
        assignment=_partitions(member.assignment) if has_topics else (),
        target_assignment=_partitions(member.target_assignment) if kind is GroupKind.CONSUMER else (),
    )


def _classic_member(member: Any, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rack=None,
        epoch=None,
        topics=(),
        pattern=None,
        assignment=_classic_assignment(bytes(member.member_assignment)) if is_consumer else (),
        target_assignment=(),
    )


def _classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """What the group's leader has written; none where it is not what consumers write."""
    if len(data) < 2:
        return ()
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.MAX_VERSION)
    try:
        decoded, _end = ConsumerProtocolAssignment.decode(memoryview(data), 2, version)
    except DecodeError:
        return ()
    return tuple(
        TopicPartition(each.topic, number) for each in decoded.assigned_partitions for number in each.partitions
    )
