"""One client's connection: frames in, answers out in the order of the requests.

Always holds: requests start in the order in which they came. One that waits in a Future (a long poll, a write
that waits for its replicas) lets the next ones start; one that runs as a coroutine holds them back, so that a
client that pipelines «create» and «describe» sees what it created. While the peer does not take its answers,
nothing more is read from it.

Bytes are copied once on their way in: from the kernel into the frame's buffer. Small frames are handled where they
were received, in a buffer that all connections share, so an idle connection holds no buffer at all. Hence the rule
for handlers: a `records` view is valid until the handler returns, or first awaits.

Does not know: what any request means.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from barnabas.log.file_range import FileRange
from barnabas.protocol.framing import Output
from barnabas.protocol.message import DecodeError
from barnabas.runtime.interfaces import Clock, Socket
from barnabas.server.context import CloseConnection
from barnabas.server.dispatch import Dispatcher, Reply

logger = logging.getLogger(__name__)

RECEIVE_BYTES = 256 * 1024  # one shared buffer; more than a loopback socket usually delivers at once
FRAME_GROWTH_BYTES = 1024 * 1024 + 64 * 1024  # memory follows the bytes received, not the length that was claimed
SPARE_FRAMES_MAX = 4  # buffers kept for the next large frame: enough for the brokers and producers active at once
LENGTH_BYTES = 4


class FrameBuffers:
    """The memory that connections of one event loop share for receiving."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._spare: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """At least `size` bytes, or as much as a frame gets before its bytes have arrived."""
        if size <= RECEIVE_BYTES:
            return bytearray(size)
        return self._spare.pop() if self._spare else bytearray(FRAME_GROWTH_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        if len(buffer) == FRAME_GROWTH_BYTES and len(self._spare) < SPARE_FRAMES_MAX:
            self._spare.append(buffer)


class Connection:
    def __init__(
        self,
        *,
        socket: Socket,
        dispatcher: Dispatcher,
        buffers: FrameBuffers,
        clock: Clock,
        frame_bytes_max: int,
        requests_in_flight_max: int,
        on_close: Callable[["Connection"], None],
    ) -> None:
        self.socket = socket
        self.active_ms = clock.monotonic_ms()  # when bytes last moved, either way
        self._dispatcher = dispatcher
        self._buffers = buffers
        self._clock = clock
        self._frame_bytes_max = frame_bytes_max
        self._requests_in_flight_max = requests_in_flight_max  # a client that pipelines more waits in its own buffers
        self._on_close = on_close
        self._closed = False

        # Coming in: at most one of these two holds bytes.
        self._partial: bytearray | None = None  # a frame of which some bytes have not arrived
        self._partial_filled = 0
        self._partial_size = 0  # with its length prefix
        self._held = bytearray()  # frames that wait until earlier requests are done
        self._reading = True

        # In flight: replies in request order; the first is never ready, or it would have gone out.
        self._pending: deque[Reply] = deque()
        self._exclusive: Reply | None = None  # a coroutine that holds back what follows it

        # Going out: `_output` collects answers, `_parts` is what the socket did not take yet.
        self._output = Output()
        self._parts: deque[memoryview | FileRange] = deque()

        socket.on_readable(self._readable)

    # Coming in

    def _readable(self) -> None:
        self._guard(self._receive)

    def _guard(self, step: Callable[[], None]) -> None:
        """The edge: whatever goes wrong with one request ends this connection and nothing else."""
        try:
            step()
        except BlockingIOError:
            return
        except DecodeError as error:
            self.close(f"unreadable request: {error}")
        except ConnectionError as error:
            self.close(f"connection lost: {error}")
        except CloseConnection as request:
            self.close(str(request))
        except Exception:
            logger.exception("a request from %s:%d failed", *self.socket.peer_address)
            self.close("internal error")

    def _receive(self) -> None:
        if self._partial is not None:
            self._receive_partial(self._partial)
            return
        scratch = self._buffers.scratch
        count = self.socket.receive_into(scratch)
        if count == 0:
            self.close()
            return
        self.active_ms = self._clock.monotonic_ms()
        self._consume(scratch[:count])

    def _receive_partial(self, buffer: bytearray) -> None:
        """Goes on with a frame that came in pieces, straight into its own buffer."""
        with memoryview(buffer) as view:
            while self._partial_filled < min(self._partial_size, len(buffer)):
                wanted = view[self._partial_filled : self._partial_size]
                count = self.socket.receive_into(wanted)
                if count == 0:
                    self.close()
                    return
                self._partial_filled += count
                if count < len(wanted):
                    break
        self.active_ms = self._clock.monotonic_ms()
        if self._partial_filled == self._partial_size:
            self._partial = None
            view = memoryview(buffer)[: self._partial_size]
            self._consume(view)
            view.release()
            self._buffers.give_back(buffer)
        elif self._partial_filled == len(buffer):
            self._partial = bytearray(min(2 * len(buffer), self._partial_size))
            self._partial[: len(buffer)] = buffer
            self._buffers.give_back(buffer)

    def _consume(self, view: memoryview) -> None:
        """Starts every whole frame, keeps the rest, and sends what is answered already."""
        position = 0
        end = len(view)
        while not self._paused() and end - position >= LENGTH_BYTES:
            size = self._frame_size(view, position)
            if end - position < size:
                break
            self._start(view[position + LENGTH_BYTES : position + size])
            position += size
        if self._closed:
            return
        if position < end:
            self._keep(view[position:])
        self._flush()
        self._read_or_pause()

    def _frame_size(self, view: memoryview, position: int) -> int:
        length = int.from_bytes(view[position : position + LENGTH_BYTES], "big", signed=True)
        if not 0 <= length <= self._frame_bytes_max:
            raise DecodeError(f"a frame of {length} bytes, where at most {self._frame_bytes_max} are allowed")
        return LENGTH_BYTES + length

    def _keep(self, rest: memoryview) -> None:
        if self._paused():
            self._held = bytearray(rest)
            return
        size = self._frame_size(rest, 0) if len(rest) >= LENGTH_BYTES else LENGTH_BYTES
        self._partial = self._buffers.take(size)
        self._partial[: len(rest)] = rest
        self._partial_filled = len(rest)
        self._partial_size = size

    # In flight

    def _start(self, frame: memoryview) -> None:
        reply = self._dispatcher.start(frame, self.socket)
        if reply is None:
            return  # acks=0: no answer is expected
        if reply.waiting is None:
            if self._pending:
                self._pending.append(reply)
            else:
                reply.encode(self._output)
            return
        self._pending.append(reply)
        if asyncio.iscoroutine(reply.waiting):
            reply.waiting = asyncio.ensure_future(reply.waiting)
            self._exclusive = reply
        reply.waiting.add_done_callback(lambda done, reply=reply: self._finished(reply, done))

    def _finished(self, reply: Reply, done: "asyncio.Future[Any]") -> None:
        if self._closed:
            if not done.cancelled() and done.exception() is not None:
                logger.error("a request failed after its client had left", exc_info=done.exception())
            return
        if done.cancelled() or done.exception() is not None:
            logger.error("request %s failed", reply.name, exc_info=None if done.cancelled() else done.exception())
            self.close(f"internal error in {reply.name}")
            return
        reply.response = done.result()
        reply.waiting = None
        if self._exclusive is reply:
            self._exclusive = None
        pending = self._pending
        while pending and pending[0].waiting is None:
            pending.popleft().encode(self._output)
        self._flush()
        self._resume()

    def _paused(self) -> bool:
        return (
            self._closed
            or self._exclusive is not None
            or len(self._pending) >= self._requests_in_flight_max
            or len(self._parts) > 0
        )

    def _resume(self) -> None:
        """Goes on with what was held back, now that there may be room for it."""
        if self._closed or self._paused():
            return
        if self._held:
            held, self._held = self._held, bytearray()
            self._guard(lambda: self._consume(memoryview(held)))
        else:
            self._read_or_pause()

    def _read_or_pause(self) -> None:
        reading = not self._paused()
        if reading != self._reading and not self._closed:
            self._reading = reading
            self.socket.on_readable(self._readable if reading else None)

    # Going out

    def _flush(self) -> None:
        output = self._output
        if not output or self._closed:
            return
        self._output = Output()
        position = 0
        with_files = memoryview(output)
        for splice_position, file_range in output.splices:
            if splice_position > position:
                self._parts.append(with_files[position:splice_position])
            assert isinstance(file_range, FileRange)
            self._parts.append(file_range)
            position = splice_position
        if position < len(output):
            self._parts.append(with_files[position:])
        self._write()

    def _write(self) -> None:
        """Sends until all is sent or the peer's window is full."""
        parts = self._parts
        try:
            while parts:
                part = parts[0]
                if isinstance(part, FileRange):
                    sent = self.socket.send_file(part.file, part.position, part.size_bytes)
                    if sent == 0:
                        self.close("a log file ended before the range that was promised from it")
                        return
                    rest: memoryview | FileRange | None = rest_of(part, sent)
                else:
                    sent = self.socket.send(part, len(parts) > 1)
                    rest = part[sent:] if sent < len(part) else None
                if rest is None:
                    parts.popleft()
                else:
                    parts[0] = rest
        except BlockingIOError:
            self.socket.on_writable(self._writable)
            self._read_or_pause()
        except OSError as error:
            self.close(f"connection lost: {error}")

    def _writable(self) -> None:
        self.active_ms = self._clock.monotonic_ms()
        self._write()
        if not self._parts and not self._closed:
            self.socket.on_writable(None)
            self._flush()
            self._resume()

    # The end

    @property
    def waiting(self) -> bool:
        """Whether it is the broker's turn: such a connection is not idle."""
        return bool(self._pending)

    def close(self, reason: str | None = None) -> None:
        if self._closed:
            return
        self._closed = True
        if reason is not None:
            logger.info("closed the connection from %s:%d: %s", *self.socket.peer_address, reason)
        self.socket.close()
        for reply in self._pending:
            # A Future is only a wait, so nobody needs it now; a Task may be half way through a change: let it end.
            if reply.waiting is not None and not isinstance(reply.waiting, asyncio.Task):
                reply.waiting.cancel()
        self._pending.clear()
        self._parts.clear()
        self._on_close(self)


def rest_of(part: FileRange, sent: int) -> FileRange | None:
    if sent == part.size_bytes:
        return None
    return FileRange(part.file, part.position + sent, part.size_bytes - sent, part.segment_base_offset)
