"""The range assignor: of each topic, every subscriber gets one run of consecutive partitions.

Always holds: within a topic, the members' shares differ by one at most, and the larger ones come first. Topics with
equal numbers of partitions and the same subscribers are cut at the same places, so that partitions of one number meet
at one member, which joins of streams rely on.
Not sticky by effort: a member that joins or leaves may shift the shares of all that come after it.
"""

from barnabas.groups.assignors.specification import Assignments, GroupSpecification, in_order
from barnabas.types import Uuid

NAME = "range"


def assign(group: GroupSpecification) -> Assignments:
    subscribers: dict[Uuid, int] = {}
    for member in group.members.values():
        for topic in member.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
    shares = {topic: divmod(group.partition_counts[topic], count) for topic, count in subscribers.items()}
    served = dict.fromkeys(shares, 0)  # subscribers of the topic that have their share
    first = dict.fromkeys(shares, 0)  # the next partition of the topic to be given
    assignments: Assignments = {}
    for member_id in in_order(group.members):
        assignment: dict[Uuid, tuple[int, ...]] = {}
        for topic in group.members[member_id].topics:
            share, larger_shares = shares[topic]
            end = first[topic] + share + (served[topic] < larger_shares)
            if end > first[topic]:
                assignment[topic] = tuple(range(first[topic], end))
            first[topic] = end
            served[topic] += 1
        assignments[member_id] = assignment
    return assignments
