"""A Barnabas broker and an Apache Kafka broker side by side, and Kafka's tools pointed at both.

Without Java, or without the jars and Maven, every test that asks for these fixtures is skipped with that reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import apache_kafka
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess

# Kafka's defaults, given to both: `barnabas up` has groups settle quicker.
PACE = {
    "group.consumer.assignment.interval.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.consumer.min.heartbeat.interval.ms": 5000,
}
RANDOM_ID = re.compile(r"(TopicId: |Cluster ID: )[A-Za-z0-9_-]{22}\b")


@pytest.fixture(scope="session")
def java() -> None:
    if reason := apache_kafka.why_unavailable():
        pytest.skip(reason)
    apache_kafka.fetch_jars()


@pytest.fixture(scope="session")
def barnabas(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(data=tmp_path_factory.mktemp("barnabas"), config=PACE) as broker:
        yield broker
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


@pytest.fixture(scope="session")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka") / "node", PACE) as broker:
        yield broker


@pytest.fixture
def both(barnabas: BrokerProcess, kafka: ApacheKafka) -> Callable[..., tuple[str, str]]:
    """Runs a tool against each; what Barnabas made it print, and what Kafka did, with what must differ taken out.

    `{bootstrap}` in an argument becomes the address. Whether the tool succeeded must not differ either.
    """

    def run(main_class: str, *arguments: str, **settings: object) -> tuple[str, str]:
        printed = []
        for broker in (barnabas, kafka):
            own = [each.replace("{bootstrap}", broker.address) for each in arguments]
            printed.append(neutral(run_tool(main_class, *own, **settings), broker))
        return printed[0], printed[1]

    return run


def neutral(text: str, broker: BrokerProcess | ApacheKafka) -> str:
    """Without addresses, directories and random ids."""
    text = text.replace(str(broker.node_directory), "DIRECTORY").replace(broker.address, "ADDRESS")
    text = text.replace(f"port: {broker.port}", "port: PORT").replace(str(broker.port), "PORT")
    return RANDOM_ID.sub(r"\1ID", text)
