"""Brokers that tests share, as fixtures; a conftest imports those that its folder wants.

Holds: each is started when a test first asks for it. Of Apache Kafka there is one for all workers of a test run: the
worker that started it ends it once no other uses it any more. None of them takes old records away, for tests write
records with timestamps of years ago, and one that reads them again later must find them.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import apache_kafka
import pytest
from broker_process import BrokerProcess
from secured_kafka import secured_kafka
from tls_proxy import TlsProxy

from barnabas.cli.ports import Ports

KEEP_RECORDS = {"log.retention.check.interval.ms": 86_400_000}


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """Where a broker of Barnabas answers. BARNABAS_TEST_BOOTSTRAP=host:port puts any other in its place."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(config=KEEP_RECORDS) as broker:
        yield broker.address
        assert broker.is_running(), broker.errors()
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


@pytest.fixture(scope="session")
def apache_listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where Apache Kafka itself answers, by the security protocol of each listener."""
    if reason := apache_kafka.why_not_here():
        pytest.skip(reason)
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with _one_for_all_workers(shared, own / "apache-kafka") as addresses:
        yield addresses


@pytest.fixture(scope="session")
def served_by_apache(apache_listeners: dict[str, str]) -> str:
    return apache_listeners["PLAINTEXT"]


@pytest.fixture(params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.java)])
def served_by_either(request: pytest.FixtureRequest) -> str:
    """Barnabas, and then Apache Kafka: for tests of what has to work with both."""
    found: str = request.getfixturevalue("served" if request.param == "barnabas" else "served_by_apache")
    return found


@pytest.fixture(scope="session")
def behind_tls() -> Iterator[str]:
    """Where a broker of Barnabas answers behind TLS, as the settings of `secured_kafka.client_settings("SSL")` want."""
    with Ports("127.0.0.1") as ports, TlsProxy() as proxy:
        inside, outside = ports.take(0), ports.take(0)
        ports.settle()
        settings = {
            **KEEP_RECORDS,
            "listeners": f"PLAINTEXT://127.0.0.1:{inside},TLS://127.0.0.1:{outside}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{inside},TLS://{proxy.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",  # brokers speak to each other, and to themselves, without TLS
        }
        with BrokerProcess(port=inside, config=settings):
            proxy.start(outside)
            yield proxy.address


@contextmanager
def _one_for_all_workers(shared: Path, directory: Path) -> Iterator[dict[str, str]]:
    address = shared / "apache-kafka-addresses"  # is there while it runs and may be used
    own: apache_kafka.ApacheKafka | None = None
    with (shared / "apache-kafka-use").open("a") as use:  # locked, together, by all who use it
        with _locked(shared / "apache-kafka-start"):
            if not address.exists():
                own, addresses = secured_kafka(directory, KEEP_RECORDS)
                own.start()
                address.write_text(json.dumps(addresses))
            fcntl.flock(use, fcntl.LOCK_SH)
        yield json.loads(address.read_text())
        if own is None:
            return
        with _locked(shared / "apache-kafka-start"):
            address.unlink()
        fcntl.flock(use, fcntl.LOCK_EX)  # when the others have ended
        own.stop()


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
