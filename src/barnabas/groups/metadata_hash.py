"""A number that stands for what a group's topics look like: it changes when a rebalance may be due (KIP-1101).

    topic:  0x00 | id, each half little-endian | name | int32 partitions | for each: int32 number, racks in order
    rack:   int32 length | name            name: UTF-16, little-endian | int32 length
    group:  int64 of each topic, in the order of the names; of no topic: 0

Always holds: Kafka 4.3 finds the same number, so that a group goes on without a rebalance when it moves between them.
"""

from collections.abc import Iterable, MutableMapping
from struct import pack

from barnabas.groups.topics import Topic, Topics
from barnabas.groups.xxh3 import xxh3_64

HashCache = MutableMapping[str, int]  # of topics, by name; whoever learns of a change takes the topic out


def group_hash(names: Iterable[str], topics: Topics, cache: HashCache) -> int:
    """Of the topics with these names, as far as they exist. As Kafka's records have it, with a sign."""
    hashes = bytearray()
    for name in sorted(names):
        topic = topics.by_name(name)
        if topic is None:
            continue
        found = cache.get(name)
        if found is None:
            found = cache[name] = topic_hash(topic, topics)
        hashes += pack("<Q", found)
    value = xxh3_64(bytes(hashes)) if hashes else 0
    return value - (1 << 64) if value >= 1 << 63 else value


def topic_hash(topic: Topic, topics: Topics) -> int:
    data = bytearray(b"\0")
    data += topic.id[7::-1] + topic.id[:7:-1]
    _add_text(data, topic.name)
    data += pack("<i", topic.partition_count)
    for partition in range(topic.partition_count):
        data += pack("<i", partition)
        for rack in sorted(topics.racks(topic.id, partition)):
            data += pack("<i", len(rack.encode("utf-16-le")) // 2)
            _add_text(data, rack)
    return xxh3_64(bytes(data))


def _add_text(data: bytearray, text: str) -> None:
    encoded = text.encode("utf-16-le")
    data += encoded
    data += pack("<i", len(encoded) // 2)
