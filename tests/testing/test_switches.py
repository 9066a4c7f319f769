"""Each switch, seen by client libraries that know nothing of it."""

from __future__ import annotations

import threading
import time

import pytest
from libraries import NONE, Library

from barnabas.errors import ErrorCode
from barnabas.testing import Kafka

DAY_MS = 24 * 60 * 60 * 1000


def read(kafka: Kafka, library: Library, topic: str, count: int) -> list[str]:
    return library.read(kafka.bootstrap_servers, topic, count)


def send(kafka: Kafka, library: Library, topic: str, *values: str) -> int:
    return library.send(kafka.bootstrap_servers, topic, *values)


def test_an_error_that_ends_a_write_reaches_the_client_and_nothing_is_written(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    fault = kafka.fail_next("Produce", "MESSAGE_TOO_LARGE")
    assert send(kafka, library, topic, "lost") == ErrorCode.MESSAGE_TOO_LARGE
    assert fault.hits == 1
    assert send(kafka, library, topic, "kept") == NONE
    assert read(kafka, library, topic, 1) == ["kept"]


def test_a_passing_error_is_tried_again_by_the_client(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    fault = kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert send(kafka, library, topic, "a", "b") == NONE
    assert fault.hits == 2
    assert read(kafka, library, topic, 2) == ["a", "b"]


def test_only_the_named_topic_fails(kafka: Kafka, library: Library):
    unlucky, lucky = kafka.create_topic("unlucky"), kafka.create_topic("lucky")
    with kafka.fail_next("Produce", "INVALID_TXN_STATE", topic=unlucky, times=100) as fault:
        assert send(kafka, library, lucky, "a") == NONE
        assert fault.hits == 0
        assert send(kafka, library, unlucky, "b") == ErrorCode.INVALID_TXN_STATE
    assert send(kafka, library, unlucky, "c") == NONE


def test_a_fetch_that_fails_is_repeated(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    assert send(kafka, library, topic, "a", "b") == NONE
    fault = kafka.fail_next("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic)
    assert read(kafka, library, topic, 2) == ["a", "b"]
    assert fault.hits == 1


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets"])
def test_questions_that_fail_are_asked_again(kafka: Kafka, library: Library, api: str):
    topic = kafka.create_topic("letters")
    assert send(kafka, library, topic, "a") == NONE
    fault = kafka.fail_next(api, "LEADER_NOT_AVAILABLE", topic=topic)
    assert read(kafka, library, topic, 1) == ["a"]
    assert fault.hits == 1


@pytest.mark.parametrize("after", [False, True])
def test_delay(kafka: Kafka, library: Library, after: bool):
    topic = kafka.create_topic("letters")
    with kafka.delay("Produce", 200, after=after) as fault:
        began = time.monotonic()
        assert send(kafka, library, topic, "slow") == NONE
        assert time.monotonic() - began >= 0.2
    assert fault.hits == 1
    assert send(kafka, library, topic, "quick") == NONE
    assert fault.hits == 1
    assert read(kafka, library, topic, 2) == ["slow", "quick"]


@pytest.mark.parametrize("after", [False, True])
def test_a_dropped_connection_costs_nothing_and_doubles_nothing(kafka: Kafka, library: Library, after: bool):
    topic = kafka.create_topic("letters")
    fault = kafka.drop_connection("Produce", after=after)
    assert library.send(kafka.bootstrap_servers, topic, "a", "b", idempotent=True) == NONE
    assert fault.hits == 1
    assert read(kafka, library, topic, 2) == ["a", "b"]


def test_clients_come_back_after_all_connections_were_dropped(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    with kafka.delay("Produce", 10, times=1) as fault:
        sending = threading.Thread(target=send, args=(kafka, library, topic, "a"))
        sending.start()
        fault.wait()
        assert kafka.drop_connections() >= 1
        sending.join()
    assert read(kafka, library, topic, 1) == ["a"]


def test_records_are_too_old_once_the_clock_has_jumped(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters", config={"retention.ms": 7 * DAY_MS})
    assert send(kafka, library, topic, "old") == NONE
    kafka.jump_clock(6 * DAY_MS)
    assert read(kafka, library, topic, 1) == ["old"]
    kafka.jump_clock(2 * DAY_MS)
    assert send(kafka, library, topic, "new") == NONE
    assert read(kafka, library, topic, 1) == ["new"]


def test_a_clock_that_is_behind_refuses_what_comes_from_the_future(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    kafka.jump_clock(-2 * DAY_MS)
    assert send(kafka, library, topic, "a") == ErrorCode.INVALID_TIMESTAMP


def test_a_paused_broker_answers_once_it_goes_on(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters")
    codes: list[int] = []
    kafka.pause()
    sending = threading.Thread(target=lambda: codes.append(send(kafka, library, topic, "a")))
    sending.start()
    sending.join(0.2)
    assert sending.is_alive()
    kafka.resume()
    sending.join()
    assert codes == [NONE]


@pytest.mark.parametrize("how", ["stop_broker", "kill_broker"])
def test_a_broker_keeps_its_memory(kafka: Kafka, library: Library, how: str):
    topic = kafka.create_topic("letters")
    assert send(kafka, library, topic, "a") == NONE
    servers = kafka.bootstrap_servers
    getattr(kafka, how)()
    kafka.start_broker()
    assert kafka.bootstrap_servers == servers
    assert send(kafka, library, topic, "b") == NONE
    assert read(kafka, library, topic, 2) == ["a", "b"]


@pytest.mark.kafka(brokers=3)
def test_leaders_move_and_brokers_fall_while_a_client_writes(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters", replication_factor=3)
    assert send(kafka, library, topic, "a") == NONE
    second = kafka.move_leader(topic)
    assert kafka.leader(topic) == second
    assert send(kafka, library, topic, "b") == NONE
    third = next(each for each in kafka.broker_ids if each not in (second, kafka.leader(topic)))
    kafka.move_leader(topic, to=third)
    kafka.kill_broker(third)
    assert send(kafka, library, topic, "c") == NONE
    kafka.start_broker(third)
    assert read(kafka, library, topic, 3) == ["a", "b", "c"]


def test_requests_can_be_watched(kafka: Kafka, library: Library):
    topic, other = kafka.create_topic("letters"), kafka.create_topic("other")
    with kafka.watch("Produce", topic=topic) as watch, kafka.delay("Produce", 1, topic=topic) as delay:
        assert send(kafka, library, topic, "a", "b") == NONE
        assert send(kafka, library, other, "c") == NONE
        watch.wait(2)
        assert (watch.hits, delay.hits) == (2, 2)


@pytest.mark.kafka(brokers=3)
def test_one_error_is_one_error_however_many_brokers_there_are(kafka: Kafka, library: Library):
    topic = kafka.create_topic("letters", partitions=3)
    fault = kafka.fail_next("Metadata", "LEADER_NOT_AVAILABLE", topic=topic)
    assert send(kafka, library, topic, "a", "b", "c") == NONE
    assert fault.hits == 1
