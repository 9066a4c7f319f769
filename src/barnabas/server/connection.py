"""One client's connection: frames in, answers out in the order of the requests.

Always holds: requests start in the order in which they came. One that waits in a Future (a long poll, a write
that waits for its replicas) lets the next ones start; one that runs as a coroutine holds them back, so that a
client that pipelines CreateTopics and Metadata sees what it created. While the peer does not take its answers,
nothing more is read from it. A turn of the event loop starts no request after TURN_MS_MAX, and sends no more than
TURN_BYTES_MAX; other connections have their turns before it goes on. What lies on the platter and not in memory is read
by another thread before it is sent.

Frames are handled where they were received (`runtime.frame_reader`). Hence the rule for handlers: a `records` view is
valid until the handler returns, or first awaits.

Does not know: what any request means.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.log.file_range import FileRange
from barnabas.protocol.framing import Output
from barnabas.protocol.message import DecodeError
from barnabas.runtime.frame_reader import FrameBuffers, FrameReader
from barnabas.runtime.interfaces import Clock, File, Offload, Socket
from barnabas.server.context import CloseConnection
from barnabas.server.dispatch import Dispatcher, Reply
from barnabas.server.supervisor import OnFailure, Supervisor, is_running

logger = logging.getLogger(__name__)

TURN_MS_MAX = 5.0  # of requests, counted in time because one may cost a thousand times as much as another
TURN_BYTES_MAX = 1 << 20  # of answers: less than a millisecond of work for a peer that takes them at once
# What is read ahead of a peer that takes much. The next answer then finds its beginning in memory too, where the event
# loop looks for the first batch.
READ_AHEAD_BYTES = 1 << 20
READ_BYTES = 256 << 10  # at once, on another thread


class Connection:
    def __init__(
        self,
        *,
        socket: Socket,
        dispatcher: Dispatcher,
        buffers: FrameBuffers,
        clock: Clock,
        offload: Offload,
        supervisor: Supervisor,
        frame_bytes_max: int,
        requests_in_flight_max: int,
        on_close: Callable[["Connection"], None],
    ) -> None:
        self.socket = socket
        self.active_ms = clock.monotonic_ms()  # when bytes last moved, either way
        self._dispatcher = dispatcher
        self._clock = clock
        self._offload = offload
        self._supervisor = supervisor
        self._requests_in_flight_max = requests_in_flight_max  # a client that pipelines more waits in its own buffers
        self._on_close = on_close
        self._closed = False

        # Coming in
        self._frames = FrameReader(
            socket=socket, buffers=buffers, frame_bytes_max=frame_bytes_max, handle=self._start, paused=self._paused
        )
        self._reading = True
        self._turn_end_ms = 0.0  # when the turn of the event loop that runs now must start no more requests
        self._is_turn_over = False  # whether it has come; the next turn is scheduled then

        # In flight: replies in request order; the first is never ready, or it would have gone out.
        self._pending: deque[Reply] = deque()
        self._exclusive: Reply | None = None  # a coroutine that holds back what follows it

        # Going out: `_output` collects answers, `_parts` is what the socket did not take yet.
        self._output = Output()
        self._parts: deque[memoryview | FileRange] = deque()
        self._awaits_writable = False
        self._cached_bytes = 0  # at the beginning of the first part, where that is a range of a file
        self._reading_in: asyncio.Task[None] | None = None  # a part that must be sent next
        self._reading_ahead: asyncio.Task[None] | None = None

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
            self._lost(error)
        except CloseConnection as request:
            self.close(str(request))
        except Exception:
            logger.exception("a request from %s:%d failed", *self.socket.peer_address)
            self.close("internal error")

    def _receive(self) -> None:
        self._begin_turn()
        if not self._frames.receive():
            self.close()
            return
        self._flush()
        self._read_or_pause()

    def _begin_turn(self) -> None:
        self.active_ms = self._clock.monotonic_ms()
        self._turn_end_ms = self.active_ms + TURN_MS_MAX

    # In flight

    def _start(self, frame: memoryview) -> None:
        reply = self._dispatcher.start(frame, self.socket)
        if self._clock.monotonic_ms() >= self._turn_end_ms and not self._is_turn_over:
            self._is_turn_over = True
            self._clock.call_later(0, self._next_turn)
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
            reply.waiting = self._supervisor.awaited(reply.name, reply.waiting)
            self._exclusive = reply
        reply.waiting.add_done_callback(lambda done, reply=reply: self._finished(reply, done))

    def _finished(self, reply: Reply, done: "asyncio.Future[Any]") -> None:
        failure = None if done.cancelled() else done.exception()
        if self._closed:
            if failure is not None and not isinstance(failure, CloseConnection):
                logger.error("a request failed after its client had left", exc_info=failure)
            return
        if isinstance(failure, CloseConnection):
            self.close(str(failure))
            return
        if done.cancelled() or failure is not None:
            logger.error("request %s failed", reply.name, exc_info=failure)
            self.close(f"internal error in {reply.name}")
            return
        self._begin_turn()
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
            or self._is_turn_over
        )

    def _resume(self) -> None:
        """Goes on with what was held back, now that there may be room for it."""
        if self._closed or self._paused():
            return
        self._guard(self._frames.resume)
        self._flush()
        self._read_or_pause()

    def _next_turn(self) -> None:
        self._is_turn_over = False
        self._begin_turn()
        self._resume()

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
        if not output.splices and not self._parts:
            # By far the most frequent: a few small answers, and a peer that takes them.
            try:
                sent = self.socket.send(output)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._lost(error)
                return
            if sent == len(output):
                output.clear()
                return
            self._parts.append(memoryview(output)[sent:])
        else:
            self._splice(output)
        self._output = Output()
        self._write()

    def _splice(self, output: Output) -> None:
        """The bytes of answers and the ranges of files between them, as parts to be sent one after the other."""
        position = 0
        view = memoryview(output)
        for splice_position, file_range in output.splices:
            if splice_position > position:
                self._parts.append(view[position:splice_position])
            assert isinstance(file_range, FileRange)
            self._parts.append(file_range)
            position = splice_position
        if position < len(output):
            self._parts.append(view[position:])

    def _write(self) -> None:
        """Sends until all is sent, the peer's window is full, or the turn has had its share."""
        if is_running(self._reading_in):
            return
        parts = self._parts
        room_bytes = TURN_BYTES_MAX
        try:
            while parts:
                if room_bytes <= 0:
                    self._write_later()
                    return
                part = parts[0]
                if isinstance(part, FileRange):
                    if self._cached_bytes == 0 and not self._is_cached(part):
                        return
                    sent = self.socket.send_file(part.file, part.position, min(self._cached_bytes, room_bytes))
                    if sent == 0:
                        self.close("a log file ended before the range that was promised from it")
                        return
                    self._cached_bytes -= sent
                    rest: memoryview | FileRange | None = rest_of(part, sent)
                else:
                    sent = self.socket.send(part, len(parts) > 1)
                    rest = part[sent:] if sent < len(part) else None
                if rest is None:
                    parts.popleft()
                else:
                    parts[0] = rest
                room_bytes -= sent
        except BlockingIOError:
            self._write_later()
        except OSError as error:
            self._lost(error)

    def _write_later(self) -> None:
        """As soon as the peer takes more; if it would already, after the other connections."""
        if not self._awaits_writable:
            self._awaits_writable = True
            self.socket.on_writable(self._writable)
        self._read_or_pause()

    def _is_cached(self, part: FileRange) -> bool:
        """If not, another thread reads the next piece, and then sending goes on."""
        size_bytes = min(part.size_bytes, TURN_BYTES_MAX)
        end = part.position + size_bytes
        if not part.file.is_cached(part.position, size_bytes):
            self._reading_in = self._supervisor.awaited("reading from the disk", self._read_in(part, size_bytes))
            if self._awaits_writable:
                self._awaits_writable = False
                self.socket.on_writable(None)
            self._read_or_pause()
            return False
        self._cached_bytes = size_bytes
        takes_much = size_bytes >= READ_AHEAD_BYTES // 2 and not is_running(self._reading_ahead)
        if takes_much and not part.file.is_cached(end, READ_AHEAD_BYTES):
            work = partial(self._read, part.file, end, READ_AHEAD_BYTES)
            self._reading_ahead = self._supervisor.start("reading ahead", work, OnFailure.ABANDON)
        return True

    async def _read_in(self, part: FileRange, size_bytes: int) -> None:
        try:
            await self._read(part.file, part.position, size_bytes)
        except OSError as error:
            self.close(f"a log file cannot be read: {error}")
        self._reading_in = None
        if not self._closed:
            self._cached_bytes = size_bytes  # if it is gone again already, sending waits for it
            self._guard(self._writable)

    async def _read(self, file: File, position: int, size_bytes: int) -> None:
        await self._offload(partial(read_all, file, position, size_bytes))

    def _writable(self) -> None:
        self._begin_turn()
        self._write()
        if not self._parts and not self._closed:
            self._awaits_writable = False
            self.socket.on_writable(None)
            self._flush()
            self._resume()

    # The end

    @property
    def waiting(self) -> bool:
        """Whether it is the broker's turn: such a connection is not idle."""
        return bool(self._pending)

    def __str__(self) -> str:
        """For the log of the watchdog, which knows the connection but not what it does."""
        host, port = self.socket.peer_address
        return f"the connection from {host}:{port}, whose latest request is {self._dispatcher.latest}"

    def _lost(self, error: OSError) -> None:
        """Clients often disconnect this way; log at DEBUG."""
        logger.debug("the connection from %s:%d was lost: %s", *self.socket.peer_address, error)
        self.close()

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


def read_all(file: File, position: int, size_bytes: int) -> None:
    """Into the memory of the system. On another thread."""
    end = position + size_bytes
    while position < end and file.read(position, min(READ_BYTES, end - position)):
        position += READ_BYTES


def rest_of(part: FileRange, sent: int) -> FileRange | None:
    if sent == part.size_bytes:
        return None
    return FileRange(part.file, part.position + sent, part.size_bytes - sent, part.segment_base_offset)
