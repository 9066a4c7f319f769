"""Clients that ask for too much: the broker stays up, stays small, and serves the others."""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess, wait_until
from wire import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Closed,
    Wire,
    batch,
    create_topic,
    encode_request,
    fetch,
    fetch_request,
    produce,
    produce_request,
)

from barnabas.protocol.apis import ApiKey, request_class
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.record_batch import decode_records, read_headers

MIB = 1 << 20
IDLE_CONNECTIONS = 5_000
PIPELINED = 10_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data=tmp_path) as process:
        yield process
        assert process.is_running(), process.errors()


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        yield connection


def fill_topic(wire: Wire, topic: str, batches: int, value_bytes: int = 1_000_000) -> None:
    create_topic(wire, topic)
    wait_until(lambda: fetch(wire, topic, {0: 0})[0].error_code == 0, "the topic is led")
    for number in range(batches):
        answer = produce(wire, topic, {0: batch(b"%08d" % number + bytes(value_bytes))})[0]
        assert answer.error_code == 0


def check_served(address: str) -> None:
    with Wire(address) as other:
        assert other.call(MetadataRequest(topics=[]), 12).brokers


def test_clients_that_never_read(broker: BrokerProcess, wire: Wire):
    """30 connections ask for 30 GB and take nothing: what waits for them is on the disk, not in memory."""
    fill_topic(wire, "big", 40)
    before = broker.resident_bytes()
    request = fetch_request("big", {0: 0}, bytes_max=100 * MIB, partition_bytes_max=100 * MIB)
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            lazy = stack.enter_context(Wire(broker.address, receive_buffer_bytes=4096))
            lazy.send_bytes(b"".join(encode_request(request, FETCH_VERSION, number) for number in range(25)))
        for _ in range(20):
            check_served(broker.address)
        assert produce(wire, "big", {0: batch(b"others are served")})[0].error_code == 0
        grown = broker.resident_bytes() - before
        assert grown < 30 * MIB, f"grew by {grown / MIB:.0f} MiB"


def test_a_client_that_sends_and_never_reads(broker: BrokerProcess):
    """Answers pile up only until the socket is full; then the broker stops reading from that client."""
    check_served(broker.address)
    before = broker.resident_bytes()
    data = encode_request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4, 1) * 1_000
    with Wire(broker.address, receive_buffer_bytes=4096) as lazy:
        lazy.socket.setblocking(False)
        sent = 0
        while sent < 200 * MIB:
            _, writable, _ = select.select([], [lazy.socket], [], 1.0)
            if not writable:
                break  # the broker reads no more
            sent += lazy.socket.send(data)
        assert sent < 200 * MIB
        check_served(broker.address)
        grown = broker.resident_bytes() - before
        assert grown < 20 * MIB, f"grew by {grown / MIB:.0f} MiB"


def test_a_slow_reader_gets_everything(broker: BrokerProcess, wire: Wire):
    fill_topic(wire, "slow", 30)
    request = fetch_request("slow", {0: 0}, bytes_max=100 * MIB, partition_bytes_max=100 * MIB)
    with Wire(broker.address, receive_buffer_bytes=8192) as slow:
        slow.send(request, FETCH_VERSION)
        slow.send(MetadataRequest(topics=[]), 12)
        check_served(broker.address)
        _, response = slow.receive(1, FETCH_VERSION)
        records = memoryview(response.responses[0].partitions[0].records)
        values = [decode_records(records, position)[0].value[:8] for position, _ in read_headers(records)]
        assert values == [b"%08d" % number for number in range(30)]
        assert slow.receive(3, 12)[1].brokers


def test_ten_thousand_pipelined_requests(broker: BrokerProcess, wire: Wire):
    """All are answered, in order, although far more come than may be in flight."""
    fill_topic(wire, "pipe", 1, 100)
    before = broker.resident_bytes()
    with Wire(broker.address) as eager:
        requests = [
            encode_request(MetadataRequest(topics=[]), 12, number)
            if number % 2
            else encode_request(fetch_request("pipe", {0: 0}), FETCH_VERSION, number)
            for number in range(PIPELINED)
        ]
        sender = threading.Thread(target=eager.send_bytes, args=(b"".join(requests),))
        sender.start()
        for number in range(PIPELINED):
            version = (3, 12) if number % 2 else (1, FETCH_VERSION)
            correlation_id, _ = eager.receive(*version)
            assert correlation_id == number
        sender.join()
    assert broker.resident_bytes() - before < 30 * MIB


def test_pipelined_produces_keep_their_order(broker: BrokerProcess, wire: Wire):
    fill_topic(wire, "order", 0)
    with Wire(broker.address) as eager:
        requests = [
            encode_request(produce_request("order", {0: batch(b"%d" % number)}), PRODUCE_VERSION, number)
            for number in range(2_000)
        ]
        sender = threading.Thread(target=eager.send_bytes, args=(b"".join(requests),))
        sender.start()
        for number in range(2_000):
            correlation_id, response = eager.receive(0, PRODUCE_VERSION)
            assert correlation_id == number
            assert response.responses[0].partition_responses[0].base_offset == number
        sender.join()


def test_five_thousand_idle_connections(broker: BrokerProcess, wire: Wire):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE_CONNECTIONS + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} open files are needed, {hard} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    fill_topic(wire, "busy", 0)
    before = broker.resident_bytes()
    half_a_request = encode_request(MetadataRequest(topics=[]), 12, 1)[:9]
    try:
        with contextlib.ExitStack() as stack:
            for number in range(IDLE_CONNECTIONS):
                idle = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=30))
                if number % 5 == 0:
                    idle.sendall(half_a_request)
            for number in range(100):
                assert produce(wire, "busy", {0: batch(b"x")})[0].base_offset == number
            check_served(broker.address)
            grown = broker.resident_bytes() - before
            assert grown < IDLE_CONNECTIONS * 8_192, f"{grown / IDLE_CONNECTIONS:.0f} bytes for each connection"
        check_served(broker.address)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_large_claims_cost_little(broker: BrokerProcess):
    """Frames of 100 MB announced by 100 connections: memory follows what has arrived."""
    check_served(broker.address)
    before = broker.resident_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            claimant = stack.enter_context(Wire(broker.address))
            claimant.send_bytes(struct.pack(">i", 100 * MIB) + bytes(1_000))
        for _ in range(5):
            check_served(broker.address)
        grown = broker.resident_bytes() - before
        assert grown < 150 * MIB, f"grew by {grown / MIB:.0f} MiB"


def test_a_large_request_is_served(broker: BrokerProcess, wire: Wire):
    create_topic(wire, "wide", 40)
    asked = dict.fromkeys(range(40), 0)
    wait_until(lambda: not any(each.error_code for each in fetch(wire, "wide", asked).values()), "the topic is led")
    answers = produce(wire, "wide", {index: batch(bytes([index]) * 1_000_000) for index in range(40)})
    assert [answers[index].error_code for index in range(40)] == [0] * 40
    for index in (0, 17, 39):
        records = memoryview(fetch(wire, "wide", {index: 0})[index].records)
        assert decode_records(records)[0].value == bytes([index]) * 1_000_000


def test_connection_limit():
    with BrokerProcess(config={"max.connections": 10}) as broker:
        check_limit(broker, 10)


def test_connection_limit_for_one_address():
    with BrokerProcess(config={"max.connections.per.ip": 4}) as broker:
        check_limit(broker, 4)
        with socket.create_connection(("127.0.0.1", broker.port), source_address=("127.0.0.9", 0)):
            pass


def check_limit(broker: BrokerProcess, limit: int) -> None:
    """One more than the limit is closed at once; when one of them leaves there is room again."""
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(Wire(broker.address)) for _ in range(limit)]
        for each in inside:
            assert each.call(MetadataRequest(topics=[]), 12).brokers
        with Wire(broker.address) as outside:
            assert outside.is_closed_by_peer()
        for each in inside:
            assert each.call(MetadataRequest(topics=[]), 12).brokers
        inside[0].close()

        def is_let_in() -> bool:
            with Wire(broker.address) as other:
                try:
                    return bool(other.call(MetadataRequest(topics=[]), 12).brokers)
                except (Closed, ConnectionError):
                    return False

        wait_until(is_let_in, "there is room again")


def test_idle_connections_are_closed_and_waiting_ones_are_not():
    broker = BrokerProcess(config={"connections.max.idle.ms": 300})
    with broker, Wire(broker.address) as idle, Wire(broker.address) as waiting:
        with Wire(broker.address) as writer:
            create_topic(writer, "t")
            wait_until(lambda: fetch(writer, "t", {0: 0})[0].error_code == 0, "the topic is led")
        waiting.send(fetch_request("t", {0: 0}, wait_ms=60_000), FETCH_VERSION)
        assert idle.is_closed_by_peer()
        with Wire(broker.address) as writer:
            assert produce(writer, "t", {0: batch(b"x")})[0].error_code == 0
        assert waiting.receive(1, FETCH_VERSION)[1].responses[0].partitions[0].high_watermark == 1


def test_frame_limit_setting():
    with BrokerProcess(config={"socket.request.max.bytes": 10_000}) as broker, Wire(broker.address) as wire:
        wire.send_bytes(struct.pack(">i", 10_001))
        assert wire.is_closed_by_peer()
        check_served(broker.address)


def test_mutated_requests(broker: BrokerProcess, wire: Wire):
    """Valid requests of every API with some bytes changed: an answer or a closed connection, never a fallen broker."""
    fill_topic(wire, "m", 3, 100)
    answer = wire.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    chance = random.Random(99)
    samples = [
        encode_request(produce_request("m", {0: batch(b"x")}), PRODUCE_VERSION, 1),
        encode_request(fetch_request("m", {0: 0}), FETCH_VERSION, 1),
    ]
    for each in answer.api_keys:
        if each.api_key in set(ApiKey):
            empty = request_class(each.api_key)()
            samples.append(encode_request(empty, each.max_version, 1))
    for number in range(600):
        data = bytearray(samples[number % len(samples)])
        for _ in range(chance.choice((1, 1, 2, 8))):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        with Wire(broker.address) as mutant:
            mutant.send_bytes(data)
            mutant.socket.shutdown(socket.SHUT_WR)
            with contextlib.suppress(Closed):
                mutant.receive_frame()
    assert "Traceback" not in broker.errors(), broker.errors()[-3000:]
    check_served(broker.address)
