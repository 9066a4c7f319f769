"""XXH3 against its published test vectors, and the hashes of topics and groups against Kafka 4.3.1's own."""

from __future__ import annotations

from barnabas.groups.metadata_hash import group_hash, topic_hash
from barnabas.groups.topics import Topic
from barnabas.groups.xxh3 import xxh3_64

RACKS = {
    "a": [()],
    "orders": [("r1", "r2"), ("r2",), ("r3", "r1")],
    "big": [()] * 300,
    "payments.eu": [(f"ü-{number % 3}",) for number in range(40)],
}
# From org.apache.kafka.coordinator.group.Utils.computeTopicHash of Kafka 4.3.1, for the topics below.
TOPIC_HASHES = {
    "a": 12784599400120296351,
    "big": 3400852459004249740,
    "orders": 9723039255488500350,
    "payments.eu": 7166742381007672985,
}


class FourTopics:
    version = 1

    def __init__(self) -> None:
        self.topics = {
            name: Topic(name, bytes.fromhex(f"112233445566770{number}8899aabbccddee0{number}"), len(racks))
            for number, (name, racks) in enumerate(RACKS.items(), start=1)
        }

    def by_name(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((each for each in self.topics.values() if each.id == topic_id), None)

    def names(self) -> list[str]:
        return list(self.topics)

    def racks(self, topic_id: bytes, partition: int) -> tuple[str, ...]:
        topic = self.by_id(topic_id)
        assert topic is not None
        return RACKS[topic.name][partition]


def test_xxh3_against_the_vectors_of_its_reference_implementation() -> None:
    # The buffer of xxHash's own self test.
    seed, buffer = 2654435761, bytearray()
    value = seed
    for _ in range(2048):
        buffer.append(value >> 56)
        value = value * 11400714785074694797 & (1 << 64) - 1
    expected = {
        0: 0x2D06800538D394C2,
        1: 0xC44BDFF4074EECDB,
        6: 0x27B56A84CD2D7325,
        12: 0xA713DAF0DFBB77E7,
        24: 0xA3FE70BF9D3510EB,
        48: 0x397DA259ECBA1F11,
        80: 0xBCDEFBBB2C47C90A,
        195: 0xCD94217EE362EC3A,
        403: 0xCDEB804D65C6DEA4,
        512: 0x617E49599013CB6B,
        2048: 0xDD59E2C3A5F038E0,
    }
    assert {size: xxh3_64(bytes(buffer[:size])) for size in expected} == expected


def test_hashes_of_topics_are_kafkas() -> None:
    topics = FourTopics()
    assert {name: topic_hash(topics.topics[name], topics) for name in TOPIC_HASHES} == TOPIC_HASHES


def test_hashes_of_groups_are_kafkas() -> None:
    topics, cache = FourTopics(), {}
    assert group_hash(["orders", "gone", "big", "a", "payments.eu"], topics, cache) == -4949846195256619860
    assert group_hash(["a"], topics, cache) == -7977358547163984066
    assert group_hash(["gone"], topics, cache) == 0
    assert cache == TOPIC_HASHES


def test_a_hash_is_remembered_until_it_is_taken_out() -> None:
    topics, cache = FourTopics(), {}
    before = group_hash(["a"], topics, cache)
    topics.topics["a"] = topics.topics["a"]._replace(partition_count=2)
    RACKS["a"].append(())
    try:
        assert group_hash(["a"], topics, cache) == before
        del cache["a"]
        assert group_hash(["a"], topics, cache) != before
    finally:
        RACKS["a"].pop()
