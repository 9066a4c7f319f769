"""The uniform assignor: as equal numbers of partitions as the subscriptions allow, and as few moves as that allows.

Where all members are subscribed to the same topics, the members' totals differ by one at most, and no assignment with
that property moves fewer partitions. Otherwise `mixed` does the work.
"""

from collections.abc import Iterable, Iterator, Mapping

from barnabas.groups.assignors import mixed
from barnabas.groups.assignors.specification import (
    Assignments,
    GroupSpecification,
    Partition,
    by_topic,
    in_order,
    kept_partitions,
)
from barnabas.types import Uuid

NAME = "uniform"


def assign(group: GroupSpecification) -> Assignments:
    if not group.members:
        return {}
    if not group.is_homogeneous:
        return mixed.assign(group)
    member_ids = in_order(group.members)
    topics = group.members[member_ids[0]].topics
    kept = kept_partitions(group, member_ids)
    total = sum(group.partition_counts[topic] for topic in topics)
    limits = _limits({member_id: len(kept[member_id]) for member_id in member_ids}, total)
    taken: set[Partition] = set()
    for member_id in member_ids:
        del kept[member_id][limits[member_id] :]
        taken.update(kept[member_id])
    free = (each for each in _all_partitions(topics, group.partition_counts) if each not in taken)
    for member_id in member_ids:
        for _ in range(limits[member_id] - len(kept[member_id])):
            kept[member_id].append(next(free))
    assert next(free, None) is None
    return {member_id: by_topic(kept[member_id]) for member_id in member_ids}


def _limits(kept: Mapping[str, int], total: int) -> dict[str, int]:
    """How many each member shall have. Those that already have more than the least come first for one more."""
    least, larger = divmod(total, len(kept))
    limits = dict.fromkeys(kept, least)
    for member_id in sorted(kept, key=lambda each: kept[each] <= least)[:larger]:  # the sort is stable
        limits[member_id] += 1
    return limits


def _all_partitions(topics: Iterable[Uuid], counts: Mapping[Uuid, int]) -> Iterator[Partition]:
    for topic in topics:
        for partition in range(counts[topic]):
            yield topic, partition
