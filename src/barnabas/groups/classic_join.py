"""JoinGroup in a classic group: who is let in, under which id, and whether the others must move.

Always holds: a dynamic member joins only under an id that was given to it first, where its version knows how
(KIP-394). A static member that comes back without its id takes the place of its former self, and nobody moves unless
the group's protocol changes (KIP-345); from then on the former self is fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.groups.classic_member import ClassicMember, protocols_of
from barnabas.groups.classic_state import (
    COMPLETING_REBALANCE,
    EMPTY,
    NO_MEMBER_ID,
    PREPARING_REBALANCE,
    STABLE,
    join_failed,
)
from barnabas.groups.outcome import NOTHING, Client, Draft, Moment, Outcome, Pending, answer
from barnabas.metadata.ids import new_uuid
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.groups.classic import ClassicGroup
    from barnabas.groups.shard import GroupShard

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
# A member that never had an answer cannot send heartbeats, and its client may have given up long ago (Kafka's number).
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


def decide(group: ClassicGroup, request: JoinGroupRequest, client: Client, pending: Pending, now: Moment) -> Outcome:
    member_id = request.member_id
    draft = Draft()
    if not _has_room(group, member_id):
        draft.answer(pending, join_failed(NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED))
        group.remove(member_id)
        group.maybe_complete_join(draft, now)
    elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        draft.answer(pending, join_failed(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif member_id == NO_MEMBER_ID:
        _join_without_id(group, request, client, pending, draft, now)
    elif member_id in group.members.expected and request.group_instance_id is None:
        _add(group, request, client, member_id, pending, draft, now)
    else:
        error = group.members.check(member_id, request.group_instance_id)
        if error != ErrorCode.NONE:
            return answer(pending, join_failed(member_id, error))
        _rejoin(group, request, group.members[member_id], pending, draft, now)
    return draft.outcome(group.group_id)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    size_max = group.surroundings.settings.size_max
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING_REBALANCE:
        # Counted are those who have joined: after the limit was lowered, the last to come back stay outside.
        return (member is not None and member.joining is not None) or group.members.joined_count < size_max
    return member is not None or len(group.members) < size_max


def _join_without_id(
    group: ClassicGroup, request: JoinGroupRequest, client: Client, pending: Pending, draft: Draft, now: Moment
) -> None:
    instance_id = request.group_instance_id
    member_id = f"{client.client_id if instance_id is None else instance_id}-{_new_id(group)}"
    if instance_id is not None:
        former_id = group.members.static_id(instance_id)
        if former_id is not None:
            _replace(group, request, client, former_id, member_id, pending, draft, now)
            return
    elif client.api_version >= MEMBER_ID_REQUIRED_VERSION:
        # Somebody who lost the answer to a join comes back under the same id instead of as another member.
        group.expect(member_id, request.session_timeout_ms, now)
        draft.answer(pending, join_failed(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        return
    _add(group, request, client, member_id, pending, draft, now)


def _new_id(group: ClassicGroup) -> str:
    digits = new_uuid(group.surroundings.random).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _add(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    member_id: str,
    pending: Pending,
    draft: Draft,
    now: Moment,
) -> None:
    member = ClassicMember.of_request(request, client, member_id)
    member.is_new = True
    if not group.members:
        group.type_name = request.protocol_type
    group.members.add(member)
    group.members.wait_to_join(member, pending, draft)
    group.grew = True
    group.keep_session(member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    group.rebalance_or_complete(draft, now)


def _rejoin(
    group: ClassicGroup, request: JoinGroupRequest, member: ClassicMember, pending: Pending, draft: Draft, now: Moment
) -> None:
    """A member that only lost its answer gets it again. A leader may have seen something that concerns everybody."""
    changed = member.protocols != protocols_of(request)
    leads = member.member_id == group.members.leader
    if group.state is COMPLETING_REBALANCE:
        settled = not changed
    elif group.state is STABLE:
        settled = not changed and not leads
    else:
        settled = False
    if settled:
        draft.answer(pending, group.joined(member))
        return
    group.members.update(member, request)
    group.members.wait_to_join(member, pending, draft)
    group.rebalance_or_complete(draft, now)


def _replace(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    former_id: str,
    member_id: str,
    pending: Pending,
    draft: Draft,
    now: Moment,
) -> None:
    """A static member is back, as a new process perhaps: its id is new, its assignment stays."""
    former = group.members[former_id]
    member = former.renamed(member_id)
    member.update(request)
    if group.state is STABLE and group.members.select_protocol(former, member) == group.protocol:
        _replace_in_stable(group, request, client, former, member, pending, draft)
        return
    _take_place(group, former, member, draft)
    group.keep_session(member, now)
    group.members.wait_to_join(member, pending, draft)
    group.rebalance_or_complete(draft, now)


def _replace_in_stable(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    former: ClassicMember,
    member: ClassicMember,
    pending: Pending,
    draft: Draft,
) -> None:
    """Without a rebalance. Only the record makes the replacement: until it is written, the former member counts."""
    former_leader = group.members.leader
    leader = member.member_id if former_leader == former.member_id else former_leader
    members = [*(each for each in group.members if each is not former), member]
    was_unsynced = former.member_id in group.members.unsynced

    def settle(_shard: GroupShard, now: Moment) -> Outcome:
        """What no record holds: its session, its other protocols, and that it has yet to ask for its part."""
        returned = group.members[member.member_id]
        group.members.update(returned, request)
        group.keep_session(returned, now)
        if was_unsynced:
            group.members.unsynced[returned.member_id] = None
        return NOTHING

    draft.records.append(group.record({each.member_id: each.assignment for each in members}, members, leader))
    draft.then = settle
    can_skip = client.api_version >= SKIP_ASSIGNMENT_VERSION
    response = group.joined(member, members, leader, skip_assignment=can_skip)
    if not can_skip:
        # Told that it leads, an older client would assign anew and send that to a group that is stable.
        response.leader = former_leader or ""
        response.members = []
    draft.answer(pending, response)


def _take_place(group: ClassicGroup, former: ClassicMember, member: ClassicMember, draft: Draft) -> None:
    group.members.answer_join(former, join_failed(former.member_id, ErrorCode.FENCED_INSTANCE_ID), draft)
    if former.syncing is not None:
        draft.answer(former.syncing, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    group.members.replace(former, member)
    group.cancel_session(former.member_id)
