"""Headers of requests and responses, and which of their versions an API uses.

    frame             size int32, then header and message
    request header 1  api_key int16, api_version int16, correlation_id int32, client_id nullable string
    request header 2  the same, then tagged fields; client_id keeps the old form, so that it can always be read
    response header   correlation_id int32; version 1 adds tagged fields

A request whose message is flexible has header 2, and its response header 1. ApiVersions alone always answers with
header 0: a client must be able to read the answer before it knows which versions the broker speaks (KIP-511).

Does not know: what is inside of the messages, sockets.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from barnabas.protocol.apis import ApiKey, flexible_from
from barnabas.protocol.message import DecodeError, EncodeError, Message
from barnabas.protocol.primitives import STRING_BYTES_MAX, Output, Spliceable, skip_tags

__all__ = [
    "SIZE_BYTES",
    "Output",
    "RequestHeader",
    "Spliceable",
    "append_response",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "request_header_version",
    "response_header_version",
]

SIZE_BYTES = 4  # the frame's size, which does not count itself

_REQUEST = Struct(">hhih")
_SIZE = _CORRELATION = Struct(">i")
_RESPONSE_BEGIN_0 = Struct(">ii")
_RESPONSE_BEGIN_1 = Struct(">iix")
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_new_tuple = tuple.__new__  # a quarter of the cost of calling the class


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int  # where the message begins


def request_header_version(api_key: int, api_version: int) -> int:
    return 2 if api_version >= flexible_from(api_key) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    return 1 if api_key != _API_VERSIONS and api_version >= flexible_from(api_key) else 0


def decode_request_header(view: memoryview, position: int) -> RequestHeader:
    """DecodeError where the header is malformed. An API that does not exist is left to the caller to refuse."""
    try:
        api_key, api_version, correlation_id, size = _REQUEST.unpack_from(view, position)
        position += _REQUEST.size
        client_id = None
        if size >= 0:
            start = position
            position += size
            if position > len(view):
                raise DecodeError(f"request header: client_id of {size} bytes; {len(view) - start} are left")
            client_id = view[start:position].tobytes().decode("utf-8", "kafka")
        if api_version >= flexible_from(api_key):
            if view[position]:
                position = skip_tags(view, position, len(view))
            else:
                position += 1
    except (IndexError, StructError) as error:
        raise DecodeError("request header: the input ends within it") from error
    except ValueError as error:
        raise DecodeError(f"request header: {error}") from error
    return _new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def encode_request_header(
    out: bytearray, api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> None:
    name = b"" if client_id is None else client_id.encode()
    if len(name) > STRING_BYTES_MAX:
        raise EncodeError(f"client_id of {len(name)} bytes; at most {STRING_BYTES_MAX} are allowed")
    out += _REQUEST.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    out += name
    if api_version >= flexible_from(api_key):
        out.append(0)


def decode_response_header(view: memoryview, position: int, header_version: int) -> tuple[int, int]:
    """The correlation id, and where the message begins."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(view, position)
        position += _CORRELATION.size
        if header_version >= 1:
            position = skip_tags(view, position, len(view))
    except (IndexError, StructError) as error:
        raise DecodeError("response header: the input ends within it") from error
    return correlation_id, position


def append_response(out: Output, response: Message, api_key: int, api_version: int, correlation_id: int) -> None:
    """Appends the whole frame: size, header, message. The size counts what is spliced in as well."""
    start = len(out)
    spliced_bytes_before = out.spliced_bytes
    begin = _RESPONSE_BEGIN_1 if response_header_version(api_key, api_version) else _RESPONSE_BEGIN_0
    out += begin.pack(0, correlation_id)
    response.encode(out, api_version)
    _SIZE.pack_into(out, start, len(out) - start - SIZE_BYTES + out.spliced_bytes - spliced_bytes_before)
