"""Groups divided by Kafka's own range assignor and by ours, with racks and without: everybody gets the same."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from barnabas.client.assignors.range import RANGE
from barnabas.client.assignors.specification import Member
from barnabas.types import TopicPartition
from tests.support import kafka_jars
from tests.support.kafka_schemas import JAVA

WHY_NOT = kafka_jars.why_not_here()
PROGRAM = Path(__file__).resolve().parents[1] / "support" / "RangeAssignments.java"
CASES = 5_000
RACKS = ("a", "b", "c")
TOPICS = ("t0", "t1", "t2", "t3")
Group = tuple[dict[str, list[tuple[str, ...]]], dict[str, Member]]


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_kafka_divides_groups_alike() -> None:
    random = Random(7)
    groups = [drawn(random) for _ in range(CASES)]
    command = [*JAVA, str(PROGRAM)]
    text = "".join(f"{written(group)}\n" for group in groups)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == CASES
    differing = 0
    for group, expected in zip(groups, answers, strict=True):
        assert divided(group) == expected, written(group)
        differing += divided(group, with_racks=False) != expected
    assert differing > CASES / 5, "racks hardly ever mattered: the cases say too little"


def drawn(random: Random) -> Group:
    """Topics that often have equal numbers of partitions; replicas in one or two racks, or in none that is known."""
    count = random.randint(1, 6)
    topics: dict[str, list[tuple[str, ...]]] = {}
    for topic in random.sample(TOPICS, random.randint(1, 4)):
        partitions = count if random.random() < 0.6 else random.randint(1, 7)
        replicas = 3 if random.random() < 0.1 else random.randint(1, 2)
        known = () if random.random() < 0.1 else RACKS
        topics[topic] = [tuple(random.sample(known, min(replicas, len(known)))) for _ in range(partitions)]
    shared = tuple(random.sample(TOPICS, random.randint(1, 4)))
    members = {}
    for number in random.sample(range(100), random.randint(1, 5)):
        wanted = shared if random.random() < 0.7 else tuple(random.sample(TOPICS, random.randint(0, 4)))
        instance = f"i{random.randint(0, 10**6)}" if random.random() < 0.3 else None
        rack = random.choice([*RACKS, "elsewhere", None])
        members[f"m{number:02}"] = Member(wanted, instance_id=instance, rack=rack)
    return topics, members


def written(group: Group) -> str:
    topics, members = group
    words = [f"{topic}={','.join('+'.join(each) or '-' for each in racks)}" for topic, racks in topics.items()]
    for member_id, member in members.items():
        words.append(f"@{member_id}={member.instance_id or ''};{member.rack or ''};{','.join(member.topics)}")
    return " ".join(words)


def divided(group: Group, *, with_racks: bool = True) -> str:
    topics, members = group
    counts = {topic: len(racks) for topic, racks in topics.items()}
    racks = {
        TopicPartition(topic, number): frozenset(found)
        for topic, each in topics.items()
        for number, found in enumerate(each)
    }
    found = RANGE.assign(counts, members, racks if with_racks else {})
    return " ".join(f"{member_id}={','.join(sorted(map(str, found[member_id])))}" for member_id in sorted(found))
