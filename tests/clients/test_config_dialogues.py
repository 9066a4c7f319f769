"""Configs as Apache Kafka 4.3.1 answers about them: dialogues recorded there, played to Barnabas."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from config_dialogue import Dialogue, played

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts" / "configs"


class WithDefaults(BrokerProcess):
    """By a file that leaves out all that can be left out, and not by `up`, which sets a few things for small groups."""

    def command(self) -> list[str]:
        assert self.data is not None
        properties = self.data / "server.properties"
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        properties.write_text(f"node.id=1\nlisteners={listener}\nlog.dirs={self.node_directory}\n")
        return [sys.executable, "-m", "barnabas", "broker", str(properties)]


@pytest.mark.skipif(
    "BARNABAS_TEST_BOOTSTRAP" in os.environ, reason="each script needs a fresh broker; see tests/scripts/configs"
)
@pytest.mark.parametrize("name", ["topic", "broker", "unknown", "group", "other"])
def test_answers_are_those_of_kafka(name: str, tmp_path: Path) -> None:
    recorded = (SCRIPTS / f"{name}.txt").read_text()
    with WithDefaults(data=tmp_path) as broker, Dialogue(broker.address) as dialogue:
        assert played(recorded, dialogue) == recorded
