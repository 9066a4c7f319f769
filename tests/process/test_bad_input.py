"""Bad input on the wire: the right error or a closed connection, and everybody else goes on.

Every reaction that a client can see is Apache Kafka's: BARNABAS_TEST_BOOTSTRAP runs these tests against it.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import pytest
from wire import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Wire,
    batch,
    encode_request,
    fetch,
    fetch_request,
    framed,
    header,
    produce,
    produce_request,
)

from barnabas.errors import ErrorCode
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.record_batch import Codec, decode_records

NewTopic = Callable[..., str]
REQUEST_BYTES_MAX = 100 * 1024 * 1024  # socket.request.max.bytes
TLS_HELLO = bytes.fromhex("16030100be010000ba0303") + bytes(range(180))


def check_served(address: str) -> None:
    with Wire(address) as other:
        assert other.call(MetadataRequest(topics=[]), 12).brokers


def check_closed(address: str, data: bytes) -> None:
    """The connection that sent this is closed without an answer, and a new one is served."""
    with Wire(address) as wire:
        wire.send_bytes(data)
        assert wire.is_closed_by_peer()
    check_served(address)


# Frames


@pytest.mark.parametrize("length", [2**31 - 1, REQUEST_BYTES_MAX + 1, -1, -(2**31)])
def test_impossible_length_prefix(served: str, length: int):
    check_closed(served, struct.pack(">i", length) + b"x" * 100)


def test_largest_length_prefix_is_waited_for(served: str):
    """The claim alone costs nothing and is legal: the broker waits for the bytes, and serves others meanwhile."""
    with Wire(served) as wire:
        wire.send_bytes(struct.pack(">i", REQUEST_BYTES_MAX) + b"\x00" * 10)
        check_served(served)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        TLS_HELLO,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["http", "tls", "ssh", "http2"],
)
def test_other_protocols(served: str, data: bytes):
    check_closed(served, data)


def test_empty_frame(served: str):
    check_closed(served, framed(b""))


@pytest.mark.parametrize("size", range(1, 11))
def test_frame_shorter_than_a_header(served: str, size: int):
    check_closed(served, framed(header(3, 12)[:size]))


def test_random_bytes(served: str):
    chance = random.Random(20)
    for _ in range(100):
        with Wire(served) as wire:
            wire.send_bytes(framed(chance.randbytes(chance.randrange(1, 400))))
            assert wire.is_closed_by_peer()
    check_served(served)


def test_every_request_torn_after_its_header(served: str, new_topic: NewTopic):
    """A frame that says it is complete and is not."""
    whole = encode_request(produce_request(new_topic(), {0: batch(b"x")}), PRODUCE_VERSION, 1)[4:]
    for size in range(14, len(whole)):
        with Wire(served) as wire:
            wire.send_bytes(framed(whole[:size]))
            assert wire.is_closed_by_peer(), size
    check_served(served)


def test_half_a_request_then_the_end(served: str):
    data = encode_request(MetadataRequest(topics=[]), 12, 1)
    for size in range(1, len(data)):
        with Wire(served) as wire:
            wire.send_bytes(data[:size])
    check_served(served)


def test_half_a_request_then_silence(served: str):
    """Nobody waits for the half that does not come, and the request works once it does."""
    data = encode_request(MetadataRequest(topics=[]), 12, 1)
    waiting = [Wire(served) for _ in range(50)]
    try:
        for number, wire in enumerate(waiting):
            wire.send_bytes(data[: 1 + number % (len(data) - 1)])
        check_served(served)
        for number, wire in enumerate(waiting):
            wire.send_bytes(data[1 + number % (len(data) - 1) :])
            assert wire.receive(3, 12)[1].brokers
    finally:
        for wire in waiting:
            wire.close()


def test_a_request_byte_by_byte(served: str):
    with Wire(served) as wire:
        for byte in encode_request(MetadataRequest(topics=[]), 12, 1):
            wire.send_bytes(bytes([byte]))
        assert wire.receive(3, 12)[1].brokers


def test_requests_glued_together(served: str):
    with Wire(served) as wire:
        data = b"".join(encode_request(MetadataRequest(topics=[]), 12, number) for number in range(1, 51))
        wire.send_bytes(data)
        assert [wire.receive(3, 12)[0] for _ in range(50)] == list(range(1, 51))


# APIs and versions


@pytest.mark.parametrize("api_key", [-1, 4, 5, 6, 7, 999, 32767])
def test_unknown_api(served: str, api_key: int):
    """Keys that never were, and those of the time before KRaft."""
    check_closed(served, framed(header(api_key, 0) + b"\x00" * 20))


@pytest.mark.parametrize(("api_key", "version"), [(0, 2), (0, 99), (1, 3), (3, 99), (3, -1), (19, 1), (22, 99)])
def test_unknown_version_of_a_known_api(served: str, api_key: int, version: int):
    check_closed(served, framed(header(api_key, version) + b"\x00" * 40))


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_newer_api_versions_request_gets_version_0s_answer(served: str, version: int):
    """KIP-511: a newer client learns what the broker speaks instead of finding its connection closed."""
    with Wire(served) as wire:
        wire.send_bytes(framed(header(18, version, 77) + b"\x00\x02x\x02y\x00"))
        view = memoryview(wire.receive_frame())
        assert struct.unpack_from(">i", view) == (77,)
        response, end = ApiVersionsResponse.decode(view, 4, 0)
        assert end == len(view)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        assert versions[18][0] == 0
        answer = wire.call(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), min(4, versions[18][1])
        )
        assert answer.error_code == 0


def test_api_versions_wants_a_proper_software_name(wire: Wire):
    request = ApiVersionsRequest(client_software_name="no spaces allowed!", client_software_version="1")
    assert wire.call(request, 3).error_code == ErrorCode.INVALID_REQUEST
    request = ApiVersionsRequest(client_software_name="fine", client_software_version="1.0")
    assert wire.call(request, 3).error_code == 0


def test_client_id_may_be_null(served: str):
    with Wire(served) as wire:
        wire.send_bytes(encode_request(MetadataRequest(topics=[]), 12, 5, client_id=None))
        assert wire.receive(3, 12)[0] == 5


# Batches


def altered(position: int, change: bytes, *, new_checksum: bool = True, **settings: object) -> bytearray:
    """A batch of one record with some bytes replaced; the checksum is made to fit unless the test is about it."""
    data = batch(b"x" * 100, **settings)
    data[position : position + len(change)] = change
    if new_checksum:
        data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return data


def test_a_wrong_crc_among_good_partitions(wire: Wire, new_topic: NewTopic):
    topic = new_topic(partitions=3)
    bad = batch(b"bad")
    bad[-2] ^= 1
    answers = produce(wire, topic, {0: batch(b"good"), 1: bad, 2: batch(b"also good")})
    assert [answers[index].error_code for index in range(3)] == [0, ErrorCode.CORRUPT_MESSAGE, 0]
    assert answers[1].base_offset == -1
    fetched = fetch(wire, topic, {0: 0, 1: 0, 2: 0}, wait_ms=1000)
    assert [fetched[index].high_watermark for index in range(3)] == [1, 0, 1]
    assert decode_records(fetched[2].records)[0].value == b"also good"


def old_message_set(magic: int) -> bytes:
    """One message in the format of before 2017."""
    timestamp = struct.pack(">q", 1_000) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i", -1) + struct.pack(">i", 3) + b"abc"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


CORRUPT, INVALID = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
# Apache Kafka 4.3.1's answer to each; a set where its own answer is only «unknown server error».
BAD_BATCHES: dict[str, tuple[bytes | bytearray, set[int]]] = {
    "length below a header": (altered(8, struct.pack(">i", 20), new_checksum=False), {CORRUPT}),
    "length negative": (altered(8, struct.pack(">i", -5), new_checksum=False), {CORRUPT}),
    "length beyond the request": (altered(8, b"\x7f\xff\xff\xff", new_checksum=False), {CORRUPT, INVALID, -1}),
    "checksum wrong": (altered(80, b"y", new_checksum=False), {CORRUPT}),
    "more records than offsets": (altered(57, struct.pack(">i", 9)), {INVALID}),
    "no records": (altered(57, struct.pack(">i", 0)), {INVALID}),
    "negative count": (altered(57, struct.pack(">i", -1)), {INVALID}),
    "more offsets than records": (altered(23, struct.pack(">i", 5)), {INVALID}),
    "negative last offset delta": (altered(23, struct.pack(">i", -1)), {INVALID}),
    "base offset not zero": (altered(0, struct.pack(">q", 7)), {INVALID}),
    "a byte short": (batch(b"x")[:-1], {INVALID}),
    "half a header": (batch(b"x")[:40], {INVALID}),
    "nothing": (b"", {INVALID}),
    "two batches": (batch(b"x") * 2, {INVALID}),
    "magic of the future": (altered(16, b"\x07"), {CORRUPT}),
    "magic negative": (altered(16, b"\xff"), {CORRUPT}),
    "magic 0": (old_message_set(0), {INVALID, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}),
    "magic 1": (old_message_set(1), {INVALID, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}),
    "codec unknown": (
        altered(21, struct.pack(">h", 5)),
        {CORRUPT, INVALID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1},
    ),
    "control batch": (batch(b"x", control=True), {INVALID}),
    "producer id without sequence": (batch(b"x", producer_id=5, producer_epoch=0), {INVALID}),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_batches(wire: Wire, new_topic: NewTopic, name: str):
    """An error for its partition; the connection lives on, and nothing was written."""
    records, allowed = BAD_BATCHES[name]
    topic = new_topic()
    assert produce(wire, topic, {0: records})[0].error_code in allowed
    assert produce(wire, topic, {0: batch(b"fine")})[0].base_offset == 0


def test_broken_compression_where_the_broker_must_unpack(wire: Wire, new_topic: NewTopic):
    topic = new_topic(compression_type="gzip")
    broken = altered(70, b"\xff" * 20, codec=Codec.ZSTD)
    assert produce(wire, topic, {0: broken})[0].error_code != 0
    assert produce(wire, topic, {0: batch(b"fine")})[0].error_code == 0


def test_unknown_topics_and_partitions(wire: Wire, new_topic: NewTopic):
    topic = new_topic()
    assert produce(wire, topic, {9: batch(b"x")})[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, topic, {-1: batch(b"x")})[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, "no-such-topic", {0: batch(b"x")})[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, topic, {9: 0})[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, "no-such-topic", {0: 0})[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [2, -2, 1000])
def test_impossible_acks(wire: Wire, new_topic: NewTopic, acks: int):
    response = wire.call(produce_request(new_topic(), {0: batch(b"x")}, acks=acks), PRODUCE_VERSION)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_gets_no_answer_and_an_error_closes(served: str, new_topic: NewTopic):
    topic = new_topic()
    with Wire(served) as wire:
        wire.send(produce_request(topic, {0: batch(b"quiet")}, acks=0), PRODUCE_VERSION)
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
        wire.send(produce_request("no-such-topic", {0: batch(b"quiet")}, acks=0), PRODUCE_VERSION)
        assert wire.is_closed_by_peer()
    with Wire(served) as wire:
        assert fetch(wire, topic, {0: 0})[0].high_watermark == 1


def test_sequence_numbers(wire: Wire, new_topic: NewTopic):
    """Duplicates are answered with their first offset, gaps and old epochs are refused."""
    topic = new_topic()
    made = wire.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4)
    assert made.error_code == 0

    def send(first_sequence: int, *values: bytes, epoch: int = 0) -> tuple[int, int]:
        settings = {"producer_id": made.producer_id, "producer_epoch": epoch, "base_sequence": first_sequence}
        answer = produce(wire, topic, {0: batch(*values, **settings)})[0]
        return answer.error_code, answer.base_offset

    assert send(0, b"a", b"b") == (0, 0)
    assert send(2, b"c") == (0, 2)
    assert send(0, b"a", b"b") == (0, 0)
    assert send(2, b"c") == (0, 2)
    assert send(5, b"x") == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(3, b"d") == (0, 3)
    assert send(0, b"new epoch", epoch=1) == (0, 4)
    assert send(4, b"old epoch", epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert send(7, b"gap", epoch=1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert fetch(wire, topic, {0: 0})[0].high_watermark == 5


# Fetches


@pytest.mark.parametrize("offset", [5, -1, 2**62])
def test_fetch_out_of_range(wire: Wire, new_topic: NewTopic, offset: int):
    topic = new_topic()
    produce(wire, topic, {0: batch(b"x")})
    answer = fetch(wire, topic, {0: offset})[0]
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetch_limits(wire: Wire, new_topic: NewTopic):
    """At least one batch comes, whole; the whole answer respects the limits otherwise."""
    topic = new_topic(partitions=3)
    one = batch(b"z" * 1_000)
    for _ in range(10):
        for index in range(3):
            produce(wire, topic, {index: one})
    size = len(one)

    def sizes(**limits: int) -> list[int]:
        answers = fetch(wire, topic, {0: 0, 1: 0, 2: 0}, **limits)
        return [len(answers[index].records or b"") for index in range(3)]

    assert sizes(partition_bytes_max=1) == [size, 0, 0]
    assert sizes(bytes_max=1) == [size, 0, 0]
    assert sum(sizes(partition_bytes_max=3 * size)) == 9 * size
    assert sizes() == [10 * size] * 3
    assert sizes(bytes_max=0) == [size, 0, 0]


def test_a_waiting_fetch_is_answered_by_the_append(served: str, new_topic: NewTopic):
    """The fetch may wait five minutes; the append ends its wait, and requests behind it stay in order."""
    topic = new_topic()
    with Wire(served) as reader, Wire(served) as writer:
        first = reader.send(fetch_request(topic, {0: 0}, wait_ms=300_000), FETCH_VERSION)
        second = reader.send(MetadataRequest(topics=[]), 12)
        produce(writer, topic, {0: batch(b"now")})
        correlation_id, response = reader.receive(1, FETCH_VERSION)
        assert correlation_id == first
        assert decode_records(response.responses[0].partitions[0].records)[0].value == b"now"
        assert reader.receive(3, 12)[0] == second


def test_a_fetch_waits_for_the_bytes_it_wants(served: str, new_topic: NewTopic):
    topic = new_topic(partitions=2)
    one = batch(b"y" * 500)
    with Wire(served) as reader, Wire(served) as writer:
        reader.send(fetch_request(topic, {0: 0, 1: 0}, wait_ms=300_000, bytes_min=3 * len(one)), FETCH_VERSION)
        for index in (0, 1, 0):
            produce(writer, topic, {index: one})
        _, response = reader.receive(1, FETCH_VERSION)
        found = [len(each.records or b"") for topic in response.responses for each in topic.partitions]
        assert sum(found) == 3 * len(one)


def test_a_fetch_that_finds_nothing_ends_at_its_deadline(wire: Wire, new_topic: NewTopic):
    answer = fetch(wire, new_topic(), {0: 0}, wait_ms=50)[0]
    assert (answer.error_code, answer.high_watermark, len(answer.records or b"")) == (0, 0, 0)
