"""The round-robin assignor: all partitions of all topics are dealt out one by one.

Always holds: where all members want the same topics, shares differ by one at most. A member that does not want a topic
is passed over for its partitions, and is next in turn for the others.
Does not know: who had what, racks.
"""

from barnabas.client.assignors.specification import (
    NO_RACKS,
    Assignments,
    Assignor,
    Members,
    PartitionCounts,
    ReplicaRacks,
    in_order,
    no_user_data,
    nothing_previously,
    partitions_of,
    subscribers,
)


def assign(partition_counts: PartitionCounts, members: Members, _racks: ReplicaRacks = NO_RACKS) -> Assignments:
    assignments: Assignments = {member_id: [] for member_id in members}
    order = in_order(members)
    wanted = {member_id: frozenset(members[member_id].topics) for member_id in order}
    turn = 0
    for topic in subscribers(partition_counts, members):
        for partition in partitions_of(topic, partition_counts):
            while topic not in wanted[order[turn]]:
                turn = (turn + 1) % len(order)
            assignments[order[turn]].append(partition)
            turn = (turn + 1) % len(order)
    return assignments


ROUND_ROBIN = Assignor(
    name="roundrobin", is_cooperative=False, assign=assign, user_data=no_user_data, previously=nothing_previously
)
