"""Three brokers as processes: started together and by hand, killed, stopped, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import REPOSITORY, wait_until
from cluster_process import ClusterProcess, wait_until_ended
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from wire import METADATA_VERSION, Wire

from barnabas.cli.ports import Ports
from barnabas.protocol.messages.metadata import MetadataRequest

TOPIC = "orders"
PARTITIONS = 3


def create_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)


def produce(address: str, first: int, count: int) -> None:
    """Returns once all are acknowledged by all in sync."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            str(number),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failures


def consume(address: str, count: int) -> list[int]:
    """So many from the beginning, in order of number; then nothing more may come."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    found = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=250)
        assert messages, f"{len(found)} of {count} came"
        found += [int(message.value()) for message in messages if message.error() is None]
    found += [int(message.value()) for message in consumer.consume(100, timeout=0.2) if message.error() is None]
    consumer.close()
    return sorted(found)


def brokers_known_at(address: str) -> dict[int, str]:
    with Wire(address) as wire:
        found = wire.call(MetadataRequest(topics=[]), METADATA_VERSION).brokers
    return {each.node_id: f"{each.host}:{each.port}" for each in found}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(data=tmp_path) as found:
        yield found
        assert "Traceback" not in found.errors()


def test_three_brokers_are_one_log(cluster: ClusterProcess):
    """Killed one at a time, stopped by Ctrl-C, and started again at other addresses, they have everything."""
    assert len(cluster.addresses) == 3
    assert all(f"INFO node {node_id} barnabas.server.broker: " in cluster.errors() for node_id in cluster.ids)
    everyone = dict(zip(cluster.ids, cluster.addresses, strict=True))
    for address in cluster.addresses:
        wait_until(lambda address=address: brokers_known_at(address) == everyone, f"{address} knows everyone")
    create_topic(cluster.address)
    for place, address in enumerate(cluster.addresses):
        produce(address, 100 * place, 100)

    killed = cluster.broker_pid(2)
    os.kill(killed, signal.SIGKILL)
    produce(cluster.address, 300, 300)
    wait_until(lambda: cluster.broker_pid(2) != killed, "the broker that died is started again")
    wait_until(lambda: len(brokers_known_at(cluster.addresses[1])) == 3, "it is one of them again")
    assert "node 2 ended with -9; it is started again" in cluster.errors()
    assert consume(cluster.addresses[1], 600) == list(range(600))

    pids = cluster.broker_pids()
    assert cluster.process is not None
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(120) == 0  # a second signal would be less patient
    cluster.stop()
    wait_until_ended(pids)
    assert not any((cluster.broker_directory(node_id) / "pid").exists() for node_id in cluster.ids)
    before = cluster.addresses
    cluster.start()
    assert cluster.addresses != before
    produce(cluster.address, 600, 100)
    assert consume(cluster.address, 700) == list(range(700))


def test_no_broker_outlives_its_supervisor(cluster: ClusterProcess):
    """Its end is the end of a pipe that each of them reads: they stop in good order."""
    pids = cluster.broker_pids()
    cluster.kill()
    wait_until_ended(pids)
    for node_id in cluster.ids:
        assert (cluster.broker_directory(node_id) / ".kafka_cleanshutdown").exists()
    cluster.start()


def test_a_broker_without_memory_of_its_promises_is_not_started_again():
    with ClusterProcess(brokers=2) as cluster:
        assert cluster.process is not None
        children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        wait_until(lambda: "it is not started again" in cluster.errors(), "the supervisor says so")
        assert cluster.is_running()
    wait_until_ended([int(pid) for pid in children])


def run_barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)


def neighbours(ports: Ports) -> int:
    """A port that is kept, and so is the next."""
    while True:
        first = ports.take(0)
        with contextlib.suppress(OSError):
            ports.take(first + 1)
            return first


def test_a_port_in_use_is_named_and_nobody_is_left(tmp_path: Path):
    with Ports("127.0.0.1") as ports:
        first = neighbours(ports)
        port = first + 1
        with socket.create_server(("127.0.0.1", port)):
            refused = run_barnabas("up", "--brokers", "3", "--port", str(first), "--data", str(tmp_path / "data"))
    assert refused.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use" in refused.stderr
    assert refused.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_broker_that_cannot_start_ends_the_others(tmp_path: Path):
    (tmp_path / "node-2").write_text("not a directory")
    refused = run_barnabas("up", "--brokers", "3", "--port", "0", "--data", str(tmp_path))
    assert refused.returncode == 1
    assert "node-2" in refused.stderr
    assert "a broker did not start" in refused.stderr
    assert not list(tmp_path.glob("node-[13]/pid"))


def begin_by_hand(properties: Path) -> subprocess.Popen[bytes]:
    """Does not wait until it is ready, for that takes a majority of them."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    command = [sys.executable, "-m", "barnabas", "broker", str(properties)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def test_three_brokers_by_hand(tmp_path: Path):
    """From files with Kafka's names, hosts by name. Clients are told the listener of the name that they dialled."""
    with Ports("") as kept:
        ports = [kept.take(0) for _ in range(9)]
        kept.settle()
        serve_by_hand(tmp_path, ports)


def serve_by_hand(tmp_path: Path, ports: list[int]) -> None:
    voters = ",".join(f"{number + 1}@localhost:{ports[3 + number]}" for number in range(3))
    started = []
    for number in range(3):
        properties = tmp_path / f"server-{number + 1}.properties"
        properties.write_text(
            f"node.id={number + 1}\n"
            "process.roles=broker,controller\n"
            f"controller.quorum.voters={voters}\n"
            "controller.listener.names=CONTROLLER\n"
            "inter.broker.listener.name=INTERNAL\n"
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"listeners=INTERNAL://127.0.0.1:{ports[6 + number]},CLIENTS://:{ports[number]},"
            f"CONTROLLER://:{ports[3 + number]}\n"
            f"advertised.listeners=INTERNAL://127.0.0.1:{ports[6 + number]},CLIENTS://localhost:{ports[number]}\n"
            f"log.dirs={tmp_path / f'data-{number + 1}'}\n"
            f"broker.rack=rack-{number + 1}\n"
        )
        started.append(begin_by_hand(properties))
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready ")
        address = f"localhost:{ports[0]}"
        wait_until(lambda: len(brokers_known_at(address)) == 3, "the first one knows of all")
        with Wire(address) as wire:
            found = wire.call(MetadataRequest(topics=[]), METADATA_VERSION).brokers
        assert [(each.node_id, each.host, each.port, each.rack) for each in found] == [
            (number + 1, "localhost", ports[number], f"rack-{number + 1}") for number in range(3)
        ]
        create_topic(address)
        produce(address, 0, 30)
        assert consume(f"localhost:{ports[2]}", 30) == list(range(30))
        for process in started:
            process.terminate()
        assert [process.wait(120) for process in started] == [0, 0, 0]
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
