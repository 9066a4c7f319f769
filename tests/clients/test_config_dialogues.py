"""Configs as Apache Kafka 4.3.1 answers about them: dialogues recorded there, played to Barnabas."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from config_dialogue import Dialogue, played

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts" / "configs"


@pytest.mark.skipif(
    "BARNABAS_TEST_BOOTSTRAP" in os.environ, reason="each script needs a fresh broker; see tests/scripts/configs"
)
@pytest.mark.parametrize("name", ["topic", "broker", "group", "other"])
def test_answers_are_those_of_kafka(name: str) -> None:
    recorded = (SCRIPTS / f"{name}.txt").read_text()
    with BrokerProcess() as broker, Dialogue(broker.address) as dialogue:
        assert played(recorded, dialogue) == recorded
