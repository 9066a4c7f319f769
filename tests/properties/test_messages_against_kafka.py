"""Our bytes read and written again by Kafka's own classes, for every message and version: those that kio lacks too."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support import kafka_jars
from tests.support.kafka_schemas import JAVA
from tests.support.message_values import Case, cases, messages

WHY_NOT = kafka_jars.why_not_here()
ECHO = Path(__file__).resolve().parents[1] / "support" / "MessageEcho.java"


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_kafka_reads_and_writes_the_same_bytes() -> None:
    lines = [(case, data) for case in cases() for data in samples(case)]
    text = "".join(f"{case.message.name} {case.version} {data.hex()}\n" for case, data in lines)
    command = [*JAVA, str(ECHO)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines)
    different = {
        str(case): (data.hex(), answer)
        for (case, data), answer in zip(lines, answers, strict=True)
        if data.hex() != answer
    }
    assert different == {}


def samples(case: Case) -> list[bytes]:
    found: list[bytes] = []

    @settings(
        max_examples=4, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(messages(case))
    def collect(message: Any) -> None:
        out = bytearray()
        message.encode(out, case.version)
        found.append(bytes(out))

    collect()
    return found
