"""The target assignment of a consumer group: asks an assignor, and writes down what it changes."""

from collections.abc import Mapping

from barnabas.groups import consumer_records
from barnabas.groups.assignors import ASSIGNORS
from barnabas.groups.assignors.specification import Assignments, GroupSpecification, MemberSpecification
from barnabas.groups.consumer_member import ConsumerMember
from barnabas.groups.consumer_state import ConsumerState
from barnabas.groups.records import GroupRecord
from barnabas.groups.topics import Topics
from barnabas.types import Uuid


def assign(state: ConsumerState, topics: Topics, assignor: str, member: ConsumerMember) -> Assignments:
    """For the members as they will be: `member` is new, or changed, or takes the place of a static member."""
    members = dict(state.members)
    former = state.static_member(member.instance_id)
    before = state.target(member.member_id)
    if former is not None and former.member_id != member.member_id:
        del members[former.member_id]
        before = state.target(former.member_id)
    members[member.member_id] = member
    resolver = _TopicResolver(state, topics)
    specifications = {
        member_id: MemberSpecification(
            each.instance_id,
            resolver.topics_of(each),
            before if member_id == member.member_id else state.target(member_id),
        )
        for member_id, each in members.items()
    }
    return ASSIGNORS[assignor](GroupSpecification(specifications, resolver.partition_counts))


def records(
    group_id: str, before: Mapping[str, object], after: Assignments, epoch: int, timestamp_ms: int
) -> list[GroupRecord]:
    """Only of those whose assignment changes; then the epoch, which makes it valid."""
    changed = [
        consumer_records.target_assignment(group_id, member_id, assignment)
        for member_id, assignment in after.items()
        if before.get(member_id) != assignment
    ]
    return [*changed, consumer_records.target_epoch(group_id, epoch, timestamp_ms)]


class _TopicResolver:
    """From subscriptions to ids of topics that exist. Members with one subscription share one tuple."""

    def __init__(self, state: ConsumerState, topics: Topics) -> None:
        self._state = state
        self._topics = topics
        self._known: dict[tuple[tuple[str, ...], str], tuple[Uuid, ...]] = {}
        self.partition_counts: dict[Uuid, int] = {}

    def topics_of(self, member: ConsumerMember) -> tuple[Uuid, ...]:
        key = (member.topics, member.expression)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._resolve(member)
        return found

    def _resolve(self, member: ConsumerMember) -> tuple[Uuid, ...]:
        found = []
        for name in self._state.topics_of(member):
            topic = self._topics.by_name(name)
            if topic is not None:
                self.partition_counts[topic.id] = topic.partition_count
                found.append(topic.id)
        return tuple(sorted(found))
