"""The sticky assignor: shares as even as possible, and of those that are, the one that moves the fewest partitions.

First everybody keeps what it had and still wants; then what nobody has goes to who has least; then, while somebody has
at least two more than another who wants one of its partitions, that one moves. Each move makes the shares more even, so
this ends; where all want the same topics, no other even assignment moves less.
Always holds: of two members that claim a partition, the one of the newer generation keeps it; of the same generation,
neither does, for one of them must be wrong.
Eager members give up everything before they join, so they carry what they had in their user data:
    count i32, (topic: size i16, UTF-8; count i32, partition i32 *)* ; generation i32
Does not know: racks.
"""

from collections.abc import Sequence
from struct import Struct, error

from barnabas.client.assignors.specification import (
    NO_GENERATION,
    NO_RACKS,
    Assignments,
    Assignor,
    Members,
    PartitionCounts,
    ReplicaRacks,
    partitions_of,
    subscribers,
)
from barnabas.types import TopicPartition

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def assign(partition_counts: PartitionCounts, members: Members, _racks: ReplicaRacks = NO_RACKS) -> Assignments:
    wanting = subscribers(partition_counts, members)
    kept_by = kept(partition_counts, members, wanting)
    owners = dict(kept_by)
    loads = {member_id: 0 for each in wanting.values() for member_id in each}
    for member_id in owners.values():
        loads[member_id] += 1
    everything = [each for topic in wanting for each in partitions_of(topic, partition_counts)]
    # Those that few want first: whoever wants more can take what is left.
    free = [each for each in everything if each not in owners]
    for partition in sorted(free, key=lambda each: len(wanting[each.topic])):
        taker = min(wanting[partition.topic], key=loads.__getitem__)
        owners[partition] = taker
        loads[taker] += 1
    # What came only now moves first: whoever has held a partition before loses more by giving it away.
    candidates = sorted(everything, key=lambda each: each in kept_by)
    even_out(candidates, wanting, owners, loads, heaviest_only=True)
    even_out(candidates, wanting, owners, loads, heaviest_only=False)
    assignments: Assignments = {member_id: [] for member_id in members}
    for partition in everything:
        assignments[owners[partition]].append(partition)
    return assignments


def kept(
    partition_counts: PartitionCounts, members: Members, wanting: dict[str, list[str]]
) -> dict[TopicPartition, str]:
    """Who had what and may keep it."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, member in members.items():
        for partition in member.owned:
            best = claims.get(partition, (NO_GENERATION - 1, None))
            if member.generation > best[0]:
                claims[partition] = (member.generation, member_id)
            elif member.generation == best[0]:
                claims[partition] = (member.generation, None)
    return {
        partition: member_id
        for partition, (_generation, member_id) in claims.items()
        if member_id is not None
        and member_id in wanting.get(partition.topic, ())
        and partition.partition < partition_counts[partition.topic]
    }


def even_out(
    candidates: Sequence[TopicPartition],
    wanting: dict[str, list[str]],
    owners: dict[TopicPartition, str],
    loads: dict[str, int],
    *,
    heaviest_only: bool,
) -> None:
    """Moves partitions from who has more to who has at least two fewer, until there is none such.

    As long as those who have most give, no partition moves twice.
    """
    moved = True
    while moved:
        moved = False
        for partition in candidates:
            owner = owners[partition]
            interested = wanting[partition.topic]
            taker = min(interested, key=loads.__getitem__)
            if loads[owner] < loads[taker] + 2:
                continue
            if heaviest_only and loads[owner] < max(loads[each] for each in interested):
                continue
            owners[partition] = taker
            loads[owner] -= 1
            loads[taker] += 1
            moved = True


def encode_owned(owned: Sequence[TopicPartition], generation: int) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in owned:
        topics.setdefault(topic, []).append(partition)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, partitions in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name + _INT32.pack(len(partitions))
        for partition in partitions:
            out += _INT32.pack(partition)
    return bytes(out + _INT32.pack(generation))


def decode_owned(data: bytes) -> tuple[list[TopicPartition], int]:
    """What cannot be read counts as nothing: it costs moves and nothing else. Old members say no generation."""
    owned: list[TopicPartition] = []
    try:
        (count,) = _INT32.unpack_from(data, 0)
        position = 4
        for _ in range(count):
            (size,) = _INT16.unpack_from(data, position)
            topic = data[position + 2 : position + 2 + size].decode()
            (partitions,) = _INT32.unpack_from(data, position + 2 + size)
            position += 6 + size
            for _ in range(partitions):
                owned.append(TopicPartition(topic, _INT32.unpack_from(data, position)[0]))
                position += 4
        generation = _INT32.unpack_from(data, position)[0] if position < len(data) else NO_GENERATION
    except (error, UnicodeDecodeError):
        return [], NO_GENERATION
    return owned, generation


STICKY = Assignor(name="sticky", is_cooperative=False, assign=assign, user_data=encode_owned, previously=decode_owned)
