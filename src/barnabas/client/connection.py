"""One connection to a broker, as its client: requests go out at once, answers come back in their order.

Always holds: every request ends, with its answer, with ConnectionLost, or with RequestTimedOut; after either error the
connection is closed, for nobody knows any more which answer belongs to which request.
Does not know: which versions the broker serves, retries, where brokers are.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.errors import KafkaError, LocalError, TlsError
from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.framing import (
    SIZE_BYTES,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from barnabas.protocol.message import DecodeError, Message
from barnabas.runtime.frame_reader import FrameBuffers, FrameReader
from barnabas.runtime.interfaces import Clock, Socket, Timer

logger = logging.getLogger(__name__)

RESPONSE_BYTES_MAX = 1 << 30  # a fetch may be this large; beyond it the length is taken for garbage
CORRELATION_ID_MAX = (1 << 31) - 1
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_TLS_ALERT = 0x15030000  # what a record of TLS begins with that says why there is no agreement


class ConnectionLost(LocalError):
    """The connection ended before the answer came: the request may have been carried out or not."""

    CODE = ErrorCode.NETWORK_EXCEPTION


class RequestTimedOut(ConnectionLost):
    """No answer within the time given."""


class Waiting(NamedTuple):
    """A request that is out."""

    api_key: int
    api_version: int
    correlation_id: int
    answer: "asyncio.Future[Any]"
    timer: Timer
    handle: Callable[[Any], None] | None = None  # see `request_and_handle`


class ClientConnection:
    def __init__(
        self,
        *,
        socket: Socket,
        clock: Clock,
        client_id: str,
        buffers: FrameBuffers,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.is_closed = False
        self._socket = socket
        self._clock = clock
        self._client_id = client_id
        self._on_close = on_close
        self._correlation_id = 0
        self._waiting: deque[Waiting] = deque()  # in the order of their answers
        self._held: list[tuple[bytearray, Waiting | None]] | None = None  # what goes out at `release`; None: at once
        self._timer: Timer | None = None  # see `call_later`
        self._unsent: deque[memoryview] = deque()  # what the socket did not take yet
        self._frames = FrameReader(
            socket=socket,
            buffers=buffers,
            frame_bytes_max=RESPONSE_BYTES_MAX,
            handle=self._answered,
            paused=lambda: self.is_closed,
        )
        socket.on_readable(self._readable)

    def request(self, message: Message, version: int, timeout_ms: float) -> "asyncio.Future[Any]":
        """Sends at once. The answer owns its bytes."""
        return self._send(message, version, timeout_ms, None)

    def request_and_handle(
        self, message: Message, version: int, handle: Callable[[Any], None], timeout_ms: float
    ) -> "asyncio.Future[None]":
        """As `request`; `handle` is given the answer in the moment of its arrival, with records that lie in the buffer
        of the connection and are valid until it returns. What it raises is what the future raises."""
        return self._send(message, version, timeout_ms, handle)

    def tell(self, message: Message, version: int) -> None:
        """Sends what gets no answer: records of acks=0. ConnectionLost where the connection is closed."""
        if self.is_closed:
            raise ConnectionLost("the connection is closed")
        frame = self._frame(message, version)
        if self._held is not None:
            self._held.append((frame, None))
        else:
            self._put(frame)

    # What must not be mixed with other requests, as authentication

    def hold(self) -> None:
        """From now on requests wait, but for those that go ahead."""
        assert self._held is None, "somebody else holds them"
        self._held = []

    def release(self) -> None:
        held, self._held = self._held, None
        for frame, waiting in held or ():
            if waiting is not None:
                self._waiting.append(waiting)
            self._put(frame)

    def request_ahead(self, message: Message, version: int, timeout_ms: float) -> "asyncio.Future[Any]":
        """As `request`, ahead of those that are held."""
        held, self._held = self._held, None
        try:
            return self._send(message, version, timeout_ms, None)
        finally:
            self._held = held

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Unless the connection is closed by then. One callback at a time."""
        self._timer = self._clock.call_later(delay_ms, callback)

    @property
    def pending(self) -> int:
        """How many requests wait for their answers."""
        return len(self._waiting) if self._held is None else len(self._waiting) + len(self._held)

    @property
    def has_unsent(self) -> bool:
        """Whether the socket has not taken all that was sent."""
        return bool(self._unsent)

    def _frame(self, message: Message, version: int) -> bytearray:
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MAX
        frame = bytearray(SIZE_BYTES)
        encode_request_header(frame, type(message).API_KEY, version, self._correlation_id, self._client_id)
        message.encode(frame, version)
        frame[:SIZE_BYTES] = (len(frame) - SIZE_BYTES).to_bytes(SIZE_BYTES, "big")
        return frame

    def _put(self, frame: bytearray) -> None:
        self._unsent.append(memoryview(frame))
        if len(self._unsent) == 1:
            self._write()

    def _send(
        self, message: Message, version: int, timeout_ms: float, handle: Callable[[Any], None] | None
    ) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            answer.set_exception(ConnectionLost("the connection is closed"))
            return answer
        api_key = type(message).API_KEY
        frame = self._frame(message, version)
        timer = self._clock.call_later(timeout_ms, lambda: self.close(RequestTimedOut(f"no answer in {timeout_ms} ms")))
        waiting = Waiting(api_key, version, self._correlation_id, answer, timer, handle)
        if self._held is not None:
            self._held.append((frame, waiting))
        else:
            self._waiting.append(waiting)
            self._put(frame)
        return answer

    def close(self, reason: Exception | None = None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._socket.close()
        self._unsent.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.extend(waiting for _frame, waiting in self._held or () if waiting is not None)
        if self._held is not None:
            self._held = []
        error = reason or ConnectionLost("the connection was closed")
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.timer.cancel()
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
                waiting.answer.exception()  # seen: perhaps nobody waits for it any more
        if self._on_close is not None:
            self._on_close()

    def _readable(self) -> None:
        try:
            if not self._frames.receive():
                self.close(self._why_closed())
        except BlockingIOError:
            return
        except (OSError, DecodeError) as error:
            self._broke(error)
        except Exception as error:  # a bug, or an answer that nobody thought of; whoever waits must not do so for ever
            logger.exception("an answer of %s cannot be read", self._socket.peer_address)
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        lost = ConnectionLost(f"the connection broke: {error}")
        lost.__cause__ = error
        self.close(lost)

    def _why_closed(self) -> KafkaError:
        """A broker that tells at most its versions before it closes a connection often wants another kind of it."""
        if self._waiting and self._waiting[0].correlation_id <= 2:
            if self._frames.unfinished_length & ~0xFFFF == _TLS_ALERT:
                host, port = self._socket.peer_address
                return TlsError(f"{host}:{port}: the broker speaks TLS here; set security_protocol=SSL or SASL_SSL")
            return ConnectionLost("the broker closed a new connection; has its listener another security_protocol?")
        return ConnectionLost("the broker closed the connection")

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            raise DecodeError("an answer to nothing")
        api_key, version, asked_id, answer, timer, handle = self._waiting[0]  # stays there until it has its answer
        correlation_id, position = decode_response_header(frame, 0, response_header_version(api_key, version))
        if correlation_id != asked_id:
            raise DecodeError(f"an answer to request {correlation_id} where one to {asked_id} was due")
        if handle is not None:
            response, _end = apis.response_class(api_key).decode(frame, position, version)
            self._waiting.popleft()
            timer.cancel()
            self._hand_over(response, handle, answer)
            return
        if api_key == apis.ApiKey.API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED_VERSION:
            version = 0  # a broker that does not know the version asked for answers with its oldest (KIP-511)
        # The frame's buffer belongs to the reader, and whoever awaits runs later: the records need a copy of their own.
        response, _end = apis.response_class(api_key).decode(memoryview(bytearray(frame)), position, version)
        self._waiting.popleft()
        timer.cancel()
        if not answer.done():
            answer.set_result(response)

    def _hand_over(self, response: Any, handle: Callable[[Any], None], answer: "asyncio.Future[None]") -> None:
        if answer.done():
            return
        try:
            handle(response)
        except Exception as error:  # whoever waits for the answer hears of it
            answer.set_exception(error)
        else:
            answer.set_result(None)

    def _write(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                sent = self._socket.send(unsent[0])
                if sent == len(unsent[0]):
                    unsent.popleft()
                else:
                    unsent[0] = unsent[0][sent:]
            self._socket.on_writable(None)
        except BlockingIOError:
            self._socket.on_writable(self._write)
        except OSError as error:
            self._broke(error)
