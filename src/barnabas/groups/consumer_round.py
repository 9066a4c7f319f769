"""One turn of a member of a consumer group, whichever protocol it speaks: what it says, and what it gets.

    subscribe   the member as it says it is; the group epoch rises where that, or the topics, call for a new assignment
    assign      the target assignment is made anew for that epoch
    reconcile   the member goes one step from what it has to its target

Always holds: nothing of the group changes here; `records` say what shall change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.groups import consumer_records, expression_refresh, target_assignment
from barnabas.groups.assignors.specification import NOTHING, Assignment
from barnabas.groups.consumer_member import JOINING, ConsumerMember, MemberState
from barnabas.groups.metadata_hash import group_hash
from barnabas.groups.outcome import Moment
from barnabas.groups.reconciliation import Goal, Owned, reconcile
from barnabas.groups.records import GroupRecord

if TYPE_CHECKING:
    from barnabas.groups.consumer import ConsumerGroup


class Round:
    def __init__(self, group: ConsumerGroup, before: ConsumerMember, records: list[GroupRecord], now: Moment) -> None:
        self.group = group
        self.before = before  # the member as it was; one that has only its id where it is new
        self.member = before  # the member as it will be
        self.records = records
        self.now = now
        self.group_epoch = group.state.group_epoch
        self.assignment_epoch = group.state.assignment_epoch
        self.target: Assignment = NOTHING  # of the member
        self.subscription_changed = False

    # What it says

    def subscribe(self, member: ConsumerMember) -> None:
        self.member = member
        before, group = self.before, self.group
        if member != before:
            self.records.append(consumer_records.member_metadata(group.group_id, member))
        topics_changed = member.topics != before.topics
        expression_changed = member.expression != before.expression
        self.subscription_changed = topics_changed or expression_changed
        bump = self._change_expression() if expression_changed else False
        bump = bump or topics_changed
        if bump or group.metadata_stale:
            self._update_epoch(bump)

    def _change_expression(self) -> bool:
        """Whether a new assignment can be made at once: what a new expression stands for is not known yet."""
        state, group_id = self.group.state, self.group.group_id
        former, expression = self.before.expression, self.member.expression
        if former and state.expressions.get(former, 0) == 1:
            self.records.append(consumer_records.no_expression(group_id, former))
        if not expression or expression in state.resolved:
            return True
        expression_refresh.schedule(self.group, self.now, at_once=True)
        return False

    def _update_epoch(self, bump: bool) -> None:
        group, surroundings = self.group, self.group.surroundings
        names = group.state.topic_names_after([self.before], self.member)
        metadata_hash = group_hash(names, surroundings.topics, surroundings.topic_hashes)
        if bump or metadata_hash != group.state.metadata_hash:
            self.group_epoch += 1
            self.records.append(consumer_records.epoch(group.group_id, self.group_epoch, metadata_hash))
        group.metadata_stale = False
        if group.state.has_partition_metadata:
            self.records.append(consumer_records.no_partition_metadata(group.group_id))

    # What it shall have

    def assign(self) -> None:
        group, state, member = self.group, self.group.state, self.member
        if state.assignment_epoch >= self.group_epoch or not self._is_due():
            former = state.static_member(member.instance_id)
            if member.instance_id is None:
                self.target = state.target(member.member_id)
            elif former is not None:
                self.target = state.target(former.member_id)
            return
        offered = group.surroundings.consumer.assignors
        wanted = state.assignor_after(self.before, member)
        assignor = wanted if wanted in offered else offered[0]
        targets = target_assignment.assign(state, group.surroundings.topics, assignor, member)
        self.records += target_assignment.records(
            group.group_id, state.targets, targets, self.group_epoch, self.now.wall_ms
        )
        self.assignment_epoch = self.group_epoch
        self.target = targets[member.member_id]

    def _is_due(self) -> bool:
        """Many members that come at once make one assignment, or two, but not one each."""
        last_ms = self.group.state.assignment_timestamp_ms
        interval_ms = self.group.settings.assignment_interval_ms
        return not last_ms <= self.now.wall_ms < last_ms + interval_ms

    # What it gets

    def reconcile(self, owned: Owned | None) -> bool:
        """False where the member must begin again."""
        group, state, member = self.group, self.group.state, self.member
        if not self.subscription_changed and member.is_reconciled_to(self.assignment_epoch):
            return True
        topics = (group.surroundings.topics.by_name(name) for name in state.topics_of(member))
        goal = Goal(
            epoch=self.assignment_epoch,
            assignment=self.target,
            topics=frozenset(topic.id for topic in topics if topic is not None),
            subscription_changed=self.subscription_changed,
            owned=owned,
            is_owned=state.is_owned,
        )
        reconciled = reconcile(member, goal)
        if reconciled is None:
            return False
        if reconciled != member:
            self.member = reconciled
            self.records.append(consumer_records.current_assignment(group.group_id, reconciled))
            if reconciled.classic is None:
                group.watch_revocation(reconciled, self.now)
        return True


def gives_up_late(member: ConsumerMember) -> bool:
    """Whether the member has partitions to give up, for which it has its rebalance timeout."""
    return member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS


def take_place(
    group: ConsumerGroup, former: ConsumerMember, member_id: str, records: list[GroupRecord]
) -> ConsumerMember:
    """A static member is back under another id: what its former self had and was to have is now its own."""
    member = former._replace(member_id=member_id, member_epoch=JOINING, previous_member_epoch=JOINING)
    records += [
        *consumer_records.removed_member(group.group_id, former.member_id),
        consumer_records.member_metadata(group.group_id, member),
        consumer_records.target_assignment(group.group_id, member_id, group.state.target(former.member_id)),
        consumer_records.current_assignment(group.group_id, member),
    ]
    return member
