"""Headers: the bytes of each version, the exceptions to the rule, and what is refused."""

import pytest

from barnabas.protocol.apis import ApiKey, api
from barnabas.protocol.framing import (
    Output,
    append_response,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from barnabas.protocol.message import DecodeError, EncodeError, Message
from barnabas.protocol.messages.request_header import RequestHeader


def header(api_key: int, api_version: int, client_id: str | None) -> bytes:
    out = bytearray()
    encode_request_header(out, api_key, api_version, 77, client_id)
    return bytes(out)


@pytest.mark.parametrize(("api_version", "header_version"), [(8, 1), (9, 2)])
def test_request_header_has_the_bytes_of_the_generated_message(api_version: int, header_version: int) -> None:
    for client_id in (None, "", "client"):
        message = RequestHeader(
            request_api_key=0, request_api_version=api_version, correlation_id=77, client_id=client_id
        )
        out = bytearray()
        message.encode(out, header_version)
        assert header(ApiKey.PRODUCE, api_version, client_id) == out
        assert decode_request_header(memoryview(b"xx" + out), 2) == (0, api_version, 77, client_id, len(out) + 2)


def test_client_id_keeps_its_old_form_in_header_two() -> None:
    assert header(ApiKey.METADATA, 9, "ab") == bytes.fromhex("0003 0009 0000004d 0002 6162 00")


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    data = bytes.fromhex("0003 0009 0000004d ffff 02 05 03 aabbcc 8101 00") + b"rest"
    assert decode_request_header(memoryview(data), 0).end == len(data) - 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0003 0009 000000",
        "0003 0009 0000004d 0005 6162",  # client_id beyond the end
        "0003 0009 0000004d ffff",  # no tagged fields
        "0003 0009 0000004d ffff 01 00 05 aa",  # a tagged field beyond the end
        "0003 0009 0000004d ffff ffffffffff",  # a varint without end
    ],
)
def test_malformed_request_header(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(memoryview(bytes.fromhex(text)), 0)


def test_a_client_id_that_is_not_utf8_is_replaced() -> None:
    data = bytes.fromhex("0003 0009 0000004d 0003 61ff62 00")
    assert decode_request_header(memoryview(data), 0).client_id == "a\ufffdb"


# What a Java 17 makes of the bytes, by new String(bytes, UTF_8).
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xc3(", "\ufffd("),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xed\xa0\x80!", "\ufffd!"),
        (b"\xed\xa0!", "\ufffd!"),
        (b"\xed!", "\ufffd!"),
        (b"\xf0\x9f\x98!", "\ufffd!"),
        (b"\xe2\x82", "\ufffd"),
        ("grüße 😀".encode(), "grüße 😀"),
    ],
)
def test_strings_are_decoded_as_java_does(data: bytes, text: str) -> None:
    assert str(memoryview(data), "utf-8", "kafka") == text


def test_header_of_an_api_that_does_not_exist_is_read_as_version_one() -> None:
    assert decode_request_header(memoryview(header(1234, 99, "x")), 0) == (1234, 99, 77, "x", 11)


def test_client_id_has_a_limit() -> None:
    assert len(header(0, 0, "x" * 32767)) == 32777
    with pytest.raises(EncodeError):
        header(0, 0, "x" * 32768)


def test_flexible_versions_choose_the_header() -> None:
    for key in ApiKey:
        facts = api(key)
        for version in range(facts.min_version, facts.max_version + 1):
            flexible = version >= facts.flexible_from
            assert request_header_version(key, version) == (2 if flexible else 1)
            expected = 1 if flexible and key != ApiKey.API_VERSIONS else 0
            assert response_header_version(key, version) == expected


def test_api_versions_of_the_future_can_still_be_read_and_answered() -> None:
    """A client that speaks a newer ApiVersions gets version 0 back, under header 0 (KIP-511)."""
    assert decode_request_header(memoryview(header(ApiKey.API_VERSIONS, 99, "x") + b"\x00"), 0).api_version == 99
    assert response_header_version(ApiKey.API_VERSIONS, 99) == 0


@pytest.mark.parametrize(("version", "text"), [(0, "0000004d"), (1, "0000004d00")])
def test_response_header(version: int, text: str) -> None:
    header_bytes = bytes.fromhex(text)
    assert decode_response_header(memoryview(header_bytes), 0, version) == (77, len(header_bytes))
    for size in range(len(header_bytes)):
        with pytest.raises(DecodeError):
            decode_response_header(memoryview(header_bytes)[:size], 0, version)


class Range:
    size_bytes = 1000


class Answer(Message):
    """Stands for a response: a range of a file between two strings."""

    def encode(self, out: bytearray, version: int) -> None:
        assert isinstance(out, Output)
        out += b"ab"
        out.splice(Range())
        out += b"c"


def test_a_frame_has_its_header_and_counts_what_is_spliced_in() -> None:
    out = Output()
    frame = (4 + 1 + 3 + 1000).to_bytes(4, "big") + bytes.fromhex("0000004d00") + b"abc"
    append_response(out, Answer(), ApiKey.FETCH, 12, 77)
    assert out == frame
    append_response(out, Answer(), ApiKey.FETCH, 12, 77)
    assert out == frame + frame
    assert [position for position, _ in out.splices] == [11, len(frame) + 11]


def test_a_frame_of_an_old_version_has_no_tags_in_its_header() -> None:
    out = Output()
    append_response(out, Answer(), ApiKey.FETCH, 11, -1)
    assert out == (4 + 3 + 1000).to_bytes(4, "big") + bytes.fromhex("ffffffff") + b"abc"
