"""Changes of partitions worked out by Kafka's own rules and by ours: the same record, or none from both.

Except that Kafka lets replicas that are taken away be eligible to lead, which we do not.
"""

import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.controller.partition_change import Election, PartitionChange, PartitionRules
from barnabas.metadata.image import PartitionImage
from tests.support import kafka_jars
from tests.support.kafka_schemas import JAVA

WHY_NOT = kafka_jars.why_not_here()
PROGRAM = Path(__file__).resolve().parents[1] / "support" / "PartitionChanges.java"
CASES = 20_000
BROKERS = range(1, 7)


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_kafka_works_out_the_same_changes() -> None:
    random = Random(1)
    cases = [case(random) for _ in range(CASES)]
    text = "".join(" ".join(f"{name}={written(value)}" for name, value in each.items()) + "\n" for each in cases)
    command = [*JAVA, str(PROGRAM)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == CASES
    compared = 0
    for each, expected in zip(cases, answers, strict=True):
        change = wished_change(each)
        enough = len(each["to_isr"]) > change.rules.min_isr + len(each["to_removing"])
        answer = shown_record(change.record())
        if enough or not leaves_eligible_behind(change):
            assert answer == expected, each
            compared += 1
    assert compared > CASES * 0.7
    assert answers.count("-") > CASES / 20, "hardly ever nothing to change: the cases say too little"


def written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def case(random: Random) -> dict[str, Any]:
    """A partition as it can be, and a wish about it: sometimes none at all."""
    replicas = tuple(random.sample(BROKERS, random.randint(1, 4)))
    adding = some(random, replicas) if random.random() < 0.3 else ()
    removing = some(random, tuple(each for each in replicas if each not in adding)) if random.random() < 0.3 else ()
    eligible = random.random() < 0.8
    isr = some(random, replicas)
    elr = some(random, tuple(each for each in replicas if each not in isr)) if eligible else ()
    if not isr and not eligible:
        isr = replicas[:1]
    leader = random.choice([*isr, -1])
    known = some(random, replicas) if leader == -1 and random.random() < 0.7 else ()
    recovery = random.choice([0, 0, 1])
    wished: dict[str, Any] = {
        "to_isr": isr,
        "to_replicas": replicas,
        "to_removing": removing,
        "to_adding": adding,
        "to_recovery": recovery,
    }
    if random.random() < 0.6:
        wished["to_isr"] = some(random, replicas)
    if random.random() < 0.3:
        wished["to_replicas"] = tuple(random.sample(BROKERS, random.randint(1, 4)))
        wished["to_adding"] = some(random, tuple(set(wished["to_replicas"]) - set(replicas)))
        wished["to_removing"] = some(random, tuple(set(replicas) - set(wished["to_replicas"])))
    if recovery and random.random() < 0.5:
        wished["to_recovery"] = 0
    return {
        "replicas": replicas,
        "isr": isr,
        "removing": removing,
        "adding": adding,
        "elr": elr,
        "known": known,
        "leader": leader,
        "recovery": recovery,
        "alive": some(random, tuple(BROKERS)),
        "min": random.randint(1, len(replicas)),
        "eligible": int(eligible),
        "election": random.choice(["ONLINE", "PREFERRED", "UNCLEAN"]),
        "unclean": some(random, replicas) if random.random() < 0.3 else (),
        **wished,
    }


def some(random: Random, brokers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(each for each in brokers if random.random() < 0.6)


def directory(number: int) -> bytes:
    return (1).to_bytes(8, "big") + number.to_bytes(8, "big")


def leaves_eligible_behind(change: PartitionChange) -> bool:
    """Whether somebody who could be eligible, or led last, is no replica any more."""
    candidates = {*change.before.isr, *change.before.eligible_leader_replicas, *change.before.last_known_elr}
    return change.rules.elr_enabled and not candidates <= set(change.replicas)


def wished_change(line: dict[str, Any]) -> PartitionChange:
    before = PartitionImage(
        replicas=line["replicas"],
        isr=line["isr"],
        leader=line["leader"],
        leader_epoch=7,
        partition_epoch=9,
        directories=tuple(map(directory, line["replicas"])),
        removing_replicas=line["removing"],
        adding_replicas=line["adding"],
        eligible_leader_replicas=line["elr"],
        last_known_elr=line["known"],
        leader_recovery_state=line["recovery"],
    )
    rules = PartitionRules(
        can_lead=lambda broker_id: broker_id in line["alive"],
        default_directory=lambda broker_id: directory(100 + broker_id),
        min_isr=line["min"],
        elr_enabled=bool(line["eligible"]),
    )
    change = PartitionChange(bytes(16), 3, before, rules)
    change.election = Election[line["election"]]
    change.isr = line["to_isr"]
    change.replicas = line["to_replicas"]
    change.removing = line["to_removing"]
    change.adding = line["to_adding"]
    change.unclean_shutdown = line["unclean"]
    change.leader_recovery_state = line["to_recovery"]
    return change


def shown_record(record: Any) -> str:
    if record is None:
        return "-"
    directories = record.directories and [each[-1] for each in record.directories]
    return (
        f"isr={shown(record.isr)} leader={record.leader} replicas={shown(record.replicas)}"
        f" removing={shown(record.removing_replicas)} adding={shown(record.adding_replicas)}"
        f" recovery={record.leader_recovery_state} directories={shown(directories)}"
        f" elr={shown(record.eligible_leader_replicas)} known={shown(record.last_known_elr)}"
    )


def shown(values: list[int] | None) -> str:
    return "null" if values is None else str(values).replace(" ", "")
