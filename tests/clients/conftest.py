"""One broker for all tests of this folder, and short ways to write to it and read from it.

BARNABAS_TEST_BOOTSTRAP=host:port runs the same tests against any other broker, for instance Apache Kafka as oracle;
what must restart its broker is then skipped. Topics are never shared between tests, so their order means nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import brokers
from broker_process import BrokerProcess
from client_libraries import confluent_kafka as ck
from client_libraries import kafka
from confluent_io import DELIVERY_SECONDS_MAX, create_topic, open_consumer

_topic_numbers = itertools.count(1)
served = brokers.served
apache_listeners = brokers.apache_listeners
behind_tls = brokers.behind_tls
served_by_apache = brokers.served_by_apache
served_by_either = brokers.served_by_either


@pytest.fixture
def disk_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own that keeps its files, for what needs a restart."""
    if "BARNABAS_TEST_BOOTSTRAP" in os.environ:
        pytest.skip("restarts its own broker; BARNABAS_TEST_BOOTSTRAP names one that it may not stop")
    with BrokerProcess(data=tmp_path) as broker:
        yield broker


@pytest.fixture(scope="session")
def admin(served: str) -> ck.admin.AdminClient:
    return ck.admin.AdminClient({"bootstrap.servers": served})


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that no other test, and no earlier run against the same broker, has used."""
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:80].strip("-")
    return lambda: f"{stem}.{os.getpid()}.{next(_topic_numbers)}"


@pytest.fixture
def new_topic(admin: ck.admin.AdminClient, topic_name: Callable[[], str]) -> Callable[..., str]:
    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = topic_name()
        create_topic(admin, name, partitions, config)
        return name

    return create


@pytest.fixture
def new_producer(served: str) -> Iterator[Callable[..., ck.Producer]]:
    producers: list[ck.Producer] = []

    def create(**settings: object) -> ck.Producer:
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        producers.append(ck.Producer({"bootstrap.servers": served, "linger.ms": 1, **settings}))
        return producers[-1]

    yield create
    for producer in producers:
        producer.purge()
        producer.flush(DELIVERY_SECONDS_MAX)


@pytest.fixture
def new_consumer(served: str) -> Iterator[Callable[..., ck.Consumer]]:
    """Consumers for assign only: the group name is a formality of librdkafka and nothing is committed."""
    consumers: list[ck.Consumer] = []

    def create(address: str = served, **settings: object) -> ck.Consumer:
        consumers.append(open_consumer(address, **settings))
        return consumers[-1]

    yield create
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def stored_bytes(served: str) -> Iterator[Callable[[str], int]]:
    """Size of partition 0 of a topic as the broker's log directories tell it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = kafka.KafkaAdminClient(bootstrap_servers=served)

        def size(topic: str) -> int:
            directories = [each for node in client.describe_log_dirs() for each in node["log_dirs"]]
            found = [each for directory in directories for each in directory["topics"] if each["name"] == topic]
            return sum(each["partition_size"] for entry in found for each in entry["partitions"])

        yield size
        client.close()
