"""`Kafka` as such: its lives, its topics, its errors, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import wait_until
from libraries import NONE, Confluent

from barnabas.cli.ports import CAN_KEEP
from barnabas.client import synchronous
from barnabas.client.admin.topics import NewTopic
from barnabas.config.validation import ConfigError
from barnabas.testing import Kafka, broker_thread, unique
from barnabas.testing.broker_thread import BrokerStopped
from barnabas.testing.cluster import RequestRefused

DESCRIPTORS = Path("/proc/self/fd")


def test_it_serves_within_the_block_and_is_gone_after_it(threads: Callable[[], list[str]]):
    with Kafka() as kafka:
        assert threads() != []
        kafka.create_topic("letters", 3)
        assert kafka.topics() == ["letters"]
        assert Confluent().send(kafka.bootstrap_servers, "letters", "a") == NONE
        [address] = kafka.addresses
    assert threads() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 1)
    with pytest.raises(RuntimeError, match="no broker runs"):
        _ = kafka.bootstrap_servers


def test_it_can_be_used_from_a_running_event_loop(threads: Callable[[], list[str]]):
    async def scenario() -> None:
        async with Kafka() as kafka:
            host, port = kafka.addresses[0]
            kafka.create_topic("letters")  # a plain call: the broker has a loop of its own
            _reader, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())
    assert threads() == []


def test_unittest_can_use_it():
    class Test(unittest.TestCase):
        def setUp(self) -> None:
            self.kafka = self.enterContext(Kafka())

        def test(self) -> None:
            assert self.kafka.topics() == []

    result = unittest.TextTestRunner(stream=io.StringIO()).run(Test("test"))
    assert result.wasSuccessful()


def test_ten_in_a_row_leave_no_descriptor_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if not DESCRIPTORS.exists():
        pytest.skip("this system does not list the descriptors of a process")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def live() -> None:
        with Kafka() as kafka:
            kafka.create_topic("letters")
            kafka.kill_broker()
            kafka.start_broker()

    live()
    gc.collect()
    before = len(list(DESCRIPTORS.iterdir()))
    for _ in range(10):
        live()
    gc.collect()
    assert len(list(DESCRIPTORS.iterdir())) <= before
    assert list(tmp_path.iterdir()) == []


def run(program: str) -> subprocess.CompletedProcess[str]:
    """In development mode, which reports every socket, loop or task that was forgotten."""
    command = [sys.executable, "-X", "dev", "-c", f"from barnabas.testing import Kafka\n{program}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)


def test_nothing_is_forgotten_however_brokers_end():
    ran = run("with Kafka(2) as kafka:\n    kafka.create_topic('x'); kafka.pause(); kafka.kill_broker(2)")
    assert "Warning" not in ran.stderr, ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr


def test_a_process_ends_though_a_broker_was_never_closed():
    ran = run("kafka = Kafka().start()\nkafka.create_topic('x')\nprint('end')")
    assert ran.stdout == "end\n"
    assert "Traceback" not in ran.stderr, ran.stderr


@pytest.mark.skipif(not CAN_KEEP, reason="only Linux lets a port be kept for somebody else")
def test_a_port_is_kept_while_its_broker_is_down():
    with Kafka() as kafka:
        [address] = kafka.addresses
        kafka.stop_broker()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        kafka.start_broker()
        socket.create_connection(address, 5).close()


def test_a_port_may_be_chosen_and_may_be_taken():
    with Kafka() as first:
        port = first.addresses[0][1]
        with pytest.raises(OSError, match=f"port {port}"):
            Kafka(port=port).start()
    with Kafka(port=port) as second:
        assert second.bootstrap_servers == f"127.0.0.1:{port}"


def test_brokers_take_settings_and_say_which_is_wrong(threads: Callable[[], list[str]]):
    with Kafka(config={"num.partitions": 4, "auto.create.topics.enable": False}) as kafka:
        kafka.create_topic("default", -1)
        assert kafka.leader("default", 3) == 1
    with pytest.raises(ConfigError, match=r"num.partitons is not a broker setting; did you mean num.partitions\?"):
        Kafka(config={"num.partitons": 4}).start()
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Kafka(config={"num.partitions": "many"}).start()
    with pytest.raises(ValueError, match="0 brokers"):
        Kafka(0).start()
    with (
        pytest.warns(UserWarning, match=r"num.network.threads has no effect"),
        Kafka(config={"num.network.threads": 2}),
    ):
        pass
    assert threads() == []


def test_what_cannot_be_done_is_said():
    with Kafka() as kafka:
        kafka.create_topic("letters")
        with pytest.raises(RequestRefused, match="letters cannot be created: TOPIC_ALREADY_EXISTS"):
            kafka.create_topic("letters")
        with pytest.raises(RequestRefused, match="INVALID_REPLICATION_FACTOR"):
            kafka.create_topic("more", replication_factor=2)
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kafka.delete_topic("none")
        with pytest.raises(RequestRefused, match="no partition none-0"):
            kafka.leader("none")
        with pytest.raises(RequestRefused, match="no other replica is in sync"):
            kafka.move_leader("letters")
        with pytest.raises(ValueError, match="there is no broker 7"):
            kafka.move_leader("letters", to=7)
        with pytest.raises(BrokerStopped, match="broker 1 runs already"):
            kafka.start_broker()
        with pytest.raises(RuntimeError, match="runs already"):
            kafka.start()
        kafka.pause()
        with pytest.raises(BrokerStopped, match="no broker runs"):
            kafka.create_topic("other")
        kafka.stop_broker()
        with pytest.raises(BrokerStopped, match="broker 1 does not run"):
            kafka.pause()
        with pytest.raises(BrokerStopped, match="broker 1 does not run"):
            kafka.kill_broker()


def test_a_killed_broker_recovers_and_a_stopped_one_need_not(caplog: pytest.LogCaptureFixture):
    with Kafka() as kafka:
        topic = kafka.create_topic("letters")
        thread = kafka._cluster._brokers[1]
        assert Confluent().send(kafka.bootstrap_servers, topic, "a") == NONE
        kafka.restart_broker()
        assert thread.broker.directory.was_clean
        kafka.kill_broker()
        kafka.start_broker()
        assert not thread.broker.directory.was_clean
        assert Confluent().read(kafka.bootstrap_servers, topic, 1) == ["a"]


def test_a_broker_that_cannot_start_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """Alone it has no quorum; together they have."""
    with Kafka(3) as kafka:
        for broker in kafka.broker_ids:
            kafka.kill_broker(broker)
        with monkeypatch.context() as patch:
            patch.setattr(broker_thread, "START_SECONDS_MAX", 0.3)
            with pytest.raises(BrokerStopped, match="broker 1 did not start"):
                kafka.start_broker(1)
        kafka.heal()
        kafka.create_topic("letters")


def test_healing_brings_everything_back():
    with Kafka(2) as kafka:
        topic = kafka.create_topic("letters", replication_factor=2)
        fault = kafka.fail_next("Produce", "INVALID_RECORD", times=100)
        kafka.jump_clock(-100_000_000)
        kafka.pause(1)
        kafka.kill_broker(2)
        kafka.heal()
        assert Confluent().send(kafka.bootstrap_servers, topic, "a") == NONE
        assert fault.hits == 0


def test_a_fault_may_be_for_one_broker():
    with Kafka(2) as kafka:
        topic = kafka.create_topic("letters", replication_factor=2)
        kafka.move_leader(topic, to=2)
        spared = kafka.fail_next("Produce", "INVALID_RECORD", broker=1)
        hit = kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", broker=2)
        assert Confluent().send(kafka.bootstrap_servers, topic, "a") == NONE
        assert (spared.hits, hit.hits) == (0, 1)
        with pytest.raises(TimeoutError, match="it has happened 0 times, not 1"):
            spared.wait(timeout_s=0.01)


def test_clients_of_our_own_are_closed_with_the_brokers(threads: Callable[[], list[str]]):
    with Kafka() as kafka:
        kafka.admin().create_topics([NewTopic(name="letters", partitions=1, replication_factor=1)])
        assert kafka.producer().send_and_wait("letters", b"a").offset == 0
        consumer = kafka.consumer("letters")
        assert [record.value for record in wait_until(lambda: consumer.poll(timeout_ms=1000), "records")] == [b"a"]
        assert {"barnabas-admin", "barnabas-consumer", "barnabas-producer"} <= set(threads())
    assert threads() == []


def test_a_script_names_its_topics_when_it_makes_a_consumer():
    with Kafka() as kafka:
        kafka.producer().send_and_wait("letters", b"a")
        with synchronous.Consumer(
            "letters", bootstrap_servers=kafka.bootstrap_servers, group_id="castle", auto_offset_reset="earliest"
        ) as consumer:
            assert next(iter(consumer)).value == b"a"


def test_a_client_that_cannot_be_closed_keeps_no_broker_alive(threads: Callable[[], list[str]]):
    kafka = Kafka().start()
    kafka._clients.append(object())
    with pytest.raises(AttributeError):
        kafka.close()
    assert threads() == []


def test_names_differ():
    assert len({unique("x") for _ in range(100)}) == 100


def test_a_process_of_its_own_obeys_the_same_switches():
    with Kafka(2, subprocess=True) as kafka:
        topic = kafka.create_topic("letters", replication_factor=2)
        fault = kafka.fail_next("Produce", "MESSAGE_TOO_LARGE")
        assert Confluent().send(kafka.bootstrap_servers, topic, "lost") == 10
        assert fault.hits == 1
        fault = kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        assert Confluent().send(kafka.bootstrap_servers, topic, "a") == NONE
        assert fault.hits == 2
        leader = kafka.leader(topic)
        assert kafka.move_leader(topic) != leader
        kafka.kill_broker(leader)
        kafka.start_broker(leader)
        kafka.pause(leader)
        kafka.heal()
        assert Confluent().read(kafka.bootstrap_servers, topic, 1) == ["a"]
        with pytest.raises(ValueError, match="did you mean PRODUCE"):
            kafka.fail_next("Prodduce", "NONE")
        with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
            kafka.create_topic(topic)
        process = kafka._cluster._process
    assert process.returncode == 0


def test_a_child_process_ends_with_the_one_that_started_it():
    ran = run("import os\nkafka = Kafka(subprocess=True).start()\nprint(*kafka.addresses[0], flush=True)\nos._exit(0)")
    host, port = ran.stdout.split()

    def is_gone() -> bool:
        try:
            socket.create_connection((host, int(port)), 5).close()
        except OSError:
            return True
        return False

    wait_until(is_gone, "nobody serves there")
