"""The range assignor: of each topic, every subscriber gets one run of consecutive partitions.

Always holds: within a topic, shares differ by one at most, and the larger ones come first. Topics with equal numbers of
partitions and the same subscribers are cut at the same places, so that partitions of one number meet at one member.
Does not know: who had what, racks.
"""

from barnabas.client.assignors.specification import (
    Assignments,
    Assignor,
    Members,
    PartitionCounts,
    no_user_data,
    nothing_previously,
    partitions_of,
    subscribers,
)


def assign(partition_counts: PartitionCounts, members: Members) -> Assignments:
    assignments: Assignments = {member_id: [] for member_id in members}
    for topic, wanting in subscribers(partition_counts, members).items():
        partitions = partitions_of(topic, partition_counts)
        share, larger_shares = divmod(len(partitions), len(wanting))
        start = 0
        for place, member_id in enumerate(wanting):
            end = start + share + (place < larger_shares)
            assignments[member_id] += partitions[start:end]
            start = end
    return assignments


RANGE = Assignor(
    name="range", is_cooperative=False, assign=assign, user_data=no_user_data, previously=nothing_previously
)
