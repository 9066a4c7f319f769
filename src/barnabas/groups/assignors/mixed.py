"""The uniform assignor's way with members that are subscribed to different topics.

Each member keeps what it may keep. Free partitions go to the least loaded subscriber, those of topics with few
subscribers first, since they have the least choice. Then single partitions move from loaded members to others that
have at least two fewer, until no such move is left.

Always holds at the end, unless ROUNDS_MAX is hit: no move of a single partition makes two members' totals more equal.
Every move makes the sum of the squares of the totals smaller, so it ends; and none is made that does not.
"""

from heapq import heapify, heapreplace

from barnabas.groups.assignors.specification import (
    Assignments,
    GroupSpecification,
    by_topic,
    in_order,
    kept_partitions,
)
from barnabas.types import Uuid

# Each round goes once over the topics. Most groups need two; chains of overlapping subscriptions need more.
ROUNDS_MAX = 64


def assign(group: GroupSpecification) -> Assignments:
    member_ids = in_order(group.members)
    balance = _Balance(group, member_ids)
    for member_id, partitions in kept_partitions(group, member_ids).items():
        for topic, partition in partitions:
            balance.give(topic, partition, member_id)
    topics = sorted(balance.subscribers, key=lambda each: (len(balance.subscribers[each]), each))
    for topic in topics:
        balance.give_free(topic, group.partition_counts[topic])
    for _ in range(ROUNDS_MAX):
        if not sum(balance.even_out(topic) for topic in topics):
            break
    return {
        member_id: by_topic((topic, each) for topic in sorted(owned) for each in owned[topic])
        for member_id, owned in balance.owned.items()
    }


class _Balance:
    def __init__(self, group: GroupSpecification, member_ids: list[str]) -> None:
        self.loads = dict.fromkeys(member_ids, 0)  # partitions in all
        self.owned: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in member_ids}
        self.subscribers: dict[Uuid, list[str]] = {}  # in the order of `member_ids`
        for member_id in member_ids:
            for topic in group.members[member_id].topics:
                self.subscribers.setdefault(topic, []).append(member_id)

    def give(self, topic: Uuid, partition: int, member_id: str) -> None:
        self.owned[member_id].setdefault(topic, []).append(partition)
        self.loads[member_id] += 1

    def give_free(self, topic: Uuid, partition_count: int) -> None:
        subscribers = self.subscribers[topic]
        taken = {partition for member_id in subscribers for partition in self.owned[member_id].get(topic, ())}
        waiting = [(self.loads[member_id], place, member_id) for place, member_id in enumerate(subscribers)]
        heapify(waiting)
        for partition in range(partition_count):
            if partition not in taken:
                load, place, member_id = waiting[0]
                self.give(topic, partition, member_id)
                heapreplace(waiting, (load + 1, place, member_id))

    def even_out(self, topic: Uuid) -> int:
        """How many partitions of the topic were moved."""
        loads, owned, moved = self.loads, self.owned, 0
        subscribers = self.subscribers[topic]
        owners = [member_id for member_id in subscribers if owned[member_id].get(topic)]
        while owners:
            giver = max(owners, key=loads.__getitem__)
            taker = min(subscribers, key=loads.__getitem__)
            if loads[giver] - loads[taker] < 2:
                break
            self.give(topic, owned[giver][topic].pop(), taker)
            loads[giver] -= 1
            moved += 1
            if not owned[giver][topic]:
                owners.remove(giver)
            if len(owned[taker][topic]) == 1:
                owners.append(taker)
        return moved
