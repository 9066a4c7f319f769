"""A connection: frames in any pieces, answers in order, backpressure both ways, and a clean end."""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from controllers import Offload
from handlers import PartsBroker
from supervision import NotedSupervisor
from wire import encode_request

from barnabas.log.file_range import FileRange
from barnabas.protocol.framing import Output
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.runtime import frame_reader
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Buffer, File
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.connection import READ_AHEAD_BYTES, TURN_BYTES_MAX, TURN_MS_MAX, Connection
from barnabas.server.context import CloseConnection, ListenerKind
from barnabas.server.dispatch import Dispatcher, Reply

REQUESTS_IN_FLIGHT_MAX = 60
FRAME_BYTES_MAX = 8_000_000


class StillClock:
    def __init__(self) -> None:
        self.next_turn: list[Callable[[], object]] = []  # what waits until others had theirs
        self.elapsed_ms = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return self.elapsed_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
        assert delay_ms == 0, "a connection needs no timer"
        self.next_turn.append(callback)

    async def sleep(self, delay_ms: float) -> None:
        raise AssertionError("a connection does not sleep")


class ScriptedSocket:
    """Gives what was put into `incoming`, piece by piece; takes `window` bytes, then blocks."""

    local_address: Address = ("127.0.0.1", 9092)
    peer_address: Address = ("127.0.0.1", 40000)

    def __init__(self) -> None:
        self.incoming: deque[bytes] = deque()
        self.ended = False
        self.window = 1 << 40
        self.sent = bytearray()
        self.closed = False
        self.readable: Callable[[], None] | None = None
        self.writable: Callable[[], None] | None = None

    def receive_into(self, buffer: memoryview) -> int:
        if not self.incoming:
            if self.ended:
                return 0
            raise BlockingIOError
        piece = self.incoming.popleft()
        taken = piece[: len(buffer)]
        if len(piece) > len(taken):
            self.incoming.appendleft(piece[len(taken) :])
        buffer[: len(taken)] = taken
        return len(taken)

    def send(self, data: Buffer, more: bool = False) -> int:
        if self.window == 0:
            raise BlockingIOError
        taken = bytes(data[: self.window])
        self.window -= len(taken)
        self.sent += taken
        return len(taken)

    def send_file(self, file: File, position: int, size: int) -> int:
        return self.send(file.read(position, min(size, self.window) if self.window else size))

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self.readable = callback

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self.writable = callback

    def close(self) -> None:
        self.closed = True

    def feed(self, *pieces: bytes) -> None:
        """Delivers the pieces one by one, as long as the connection wants to read."""
        self.incoming.extend(pieces)
        while self.incoming and self.readable is not None and not self.closed:
            self.readable()


class EchoReply:
    name = "echo"

    def __init__(self, response: bytes | FileRange | None, waiting: Any = None) -> None:
        self.response = response
        self.waiting = waiting

    def encode(self, output: Output) -> None:
        if isinstance(self.response, FileRange):
            output += b"="
            output.splice(self.response)
        else:
            assert self.response is not None
            output += self.response


class Echo:
    """Answers a frame with its own bytes, unless told otherwise for a certain frame."""

    latest = "echo"

    def __init__(self, clock: StillClock) -> None:
        self.started: list[bytes] = []
        self.special: dict[bytes, Callable[[], EchoReply | None]] = {}
        self.cost_ms = 0.0  # of each request
        self._clock = clock

    def start(self, frame: memoryview, socket: Any) -> EchoReply | None:
        self._clock.elapsed_ms += self.cost_ms
        body = bytes(frame)
        self.started.append(body)
        special = self.special.get(body)
        return special() if special is not None else EchoReply(b"<" + body + b">")


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Fixture:
    def __init__(self, dispatcher: Callable[[StillClock], Any] | None = None) -> None:
        self.socket = ScriptedSocket()
        self.clock = StillClock()
        self.echo = Echo(self.clock)
        self.ended: list[Connection] = []
        self.offload = Offload()
        self.connection = Connection(
            socket=self.socket,
            dispatcher=self.echo if dispatcher is None else dispatcher(self.clock),
            buffers=FrameBuffers(),
            clock=self.clock,
            offload=self.offload,
            supervisor=NotedSupervisor(self.clock),
            frame_bytes_max=FRAME_BYTES_MAX,
            requests_in_flight_max=REQUESTS_IN_FLIGHT_MAX,
            on_close=self.ended.append,
        )

    def later(self, body: bytes) -> "asyncio.Future[bytes]":
        """The frame `body` will be answered by the future that this returns."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.echo.special[body] = lambda: EchoReply(None, future)
        return future

    def exclusive(self, body: bytes) -> "asyncio.Future[bytes]":
        """The same, by a coroutine."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def wait() -> bytes:
            return await future

        self.echo.special[body] = lambda: EchoReply(None, wait())
        return future


def run(test: Callable[[Fixture], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Fixture())

    asyncio.run(main())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 4, 5, 7, 1000])
def test_frames_arrive_in_any_pieces(piece_bytes: int) -> None:
    async def test(at: Fixture) -> None:
        stream = frame(b"one") + frame(b"") + frame(b"x" * 40) + frame(b"four")
        at.socket.feed(*(stream[i : i + piece_bytes] for i in range(0, len(stream), piece_bytes)))
        assert at.echo.started == [b"one", b"", b"x" * 40, b"four"]
        assert at.socket.sent == b"<one><><" + b"x" * 40 + b"><four>"

    run(test)


def test_a_frame_larger_than_every_buffer_comes_whole() -> None:
    async def test(at: Fixture) -> None:
        body = bytes(range(256)) * 20_000
        stream = frame(b"small") + frame(body) + frame(b"after")
        at.socket.feed(*(stream[i : i + 100_000] for i in range(0, len(stream), 100_000)))
        assert at.echo.started == [b"small", body, b"after"]

    run(test)


def test_memory_follows_the_bytes_received_not_the_length_claimed() -> None:
    async def test(at: Fixture) -> None:
        at.socket.feed(struct.pack(">i", FRAME_BYTES_MAX) + b"only this")
        partial = at.connection._frames._partial
        assert partial is not None
        assert len(partial) <= frame_reader.FRAME_GROWTH_BYTES

    run(test)


def test_a_buffer_that_has_grown_serves_the_next_large_frame() -> None:
    async def test(at: Fixture) -> None:
        stream = frame(bytes(3 * frame_reader.FRAME_GROWTH_BYTES))
        pieces = [stream[i : i + 100_000] for i in range(0, len(stream), 100_000)]
        at.socket.feed(*pieces)
        at.socket.feed(*pieces[:1])
        partial = at.connection._frames._partial
        assert partial is not None
        assert len(partial) == 4 * frame_reader.FRAME_GROWTH_BYTES
        at.socket.feed(*pieces[1:])
        assert [len(each) for each in at.echo.started] == [3 * frame_reader.FRAME_GROWTH_BYTES] * 2

    run(test)


@pytest.mark.parametrize("length", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_an_impossible_length_closes(length: int) -> None:
    async def test(at: Fixture) -> None:
        at.socket.feed(frame(b"good"), struct.pack(">i", length))
        assert at.socket.sent == b"<good>"
        assert at.socket.closed
        assert at.ended == [at.connection]

    run(test)


def test_answers_leave_in_the_order_of_the_requests() -> None:
    async def test(at: Fixture) -> None:
        slow, slower = at.later(b"slow"), at.later(b"slower")
        at.socket.feed(frame(b"a") + frame(b"slow") + frame(b"b") + frame(b"slower") + frame(b"c"))
        assert at.echo.started == [b"a", b"slow", b"b", b"slower", b"c"]
        assert at.socket.sent == b"<a>"
        slower.set_result(b"<slower>")
        await settle()
        assert at.socket.sent == b"<a>"
        slow.set_result(b"<slow>")
        await settle()
        assert at.socket.sent == b"<a><slow><b><slower><c>"

    run(test)


def test_a_coroutine_holds_back_what_follows_it() -> None:
    async def test(at: Fixture) -> None:
        change = at.exclusive(b"change")
        at.socket.feed(frame(b"change") + frame(b"look") + frame(b"again"))
        await settle()
        assert at.echo.started == [b"change"]
        assert at.socket.readable is None
        change.set_result(b"<change>")
        await settle()
        assert at.echo.started == [b"change", b"look", b"again"]
        assert at.socket.sent == b"<change><look><again>"
        assert at.socket.readable is not None

    run(test)


def test_too_many_requests_in_flight_wait_in_the_socket() -> None:
    async def test(at: Fixture) -> None:
        bodies = [b"%d" % number for number in range(REQUESTS_IN_FLIGHT_MAX + 20)]
        futures = [at.later(body) for body in bodies]
        at.socket.feed(b"".join(frame(body) for body in bodies))
        assert len(at.echo.started) == REQUESTS_IN_FLIGHT_MAX
        assert at.socket.readable is None
        for future in futures[:10]:
            future.set_result(b".")
        await settle()
        assert len(at.echo.started) == REQUESTS_IN_FLIGHT_MAX + 10
        for future in futures[10:]:
            future.set_result(b".")
        await settle()
        assert at.echo.started == bodies
        assert at.socket.sent == b"." * len(bodies)
        assert at.socket.readable is not None

    run(test)


@pytest.mark.parametrize("requests_per_turn", [1, 8, 128])
def test_many_requests_leave_others_their_turn(requests_per_turn: int) -> None:
    async def test(at: Fixture) -> None:
        at.echo.cost_ms = TURN_MS_MAX / requests_per_turn
        bodies = [b"%d" % number for number in range(2 * requests_per_turn + (requests_per_turn + 1) // 2)]
        at.socket.feed(b"".join(frame(body) for body in bodies))
        answered = []
        while at.clock.next_turn:
            assert at.socket.readable is None, "what came later must wait"
            answered.append(at.socket.sent.count(b"<"))
            (turn,) = at.clock.next_turn
            at.clock.next_turn.clear()
            turn()
        assert answered[:2] == [requests_per_turn, 2 * requests_per_turn]
        assert at.echo.started == bodies
        assert at.socket.sent == b"".join(b"<" + body + b">" for body in bodies)
        assert at.socket.readable is not None

    run(test)


def test_pipelined_metadata_requests_leave_others_their_turn() -> None:
    """Metadata is answered at once, without a wait that would let others run; in a large cluster it costs much."""
    count, requests_per_turn = 100, 5
    started_at: list[int] = []  # the turn of each request
    turns = 0

    class CostlyDispatcher(Dispatcher):
        def __init__(self, broker: PartsBroker, clock: StillClock) -> None:
            super().__init__(broker, ListenerKind.BROKERS)  # type: ignore[arg-type]
            self._clock = clock

        def start(self, frame: memoryview, socket: Any) -> Reply | None:
            self._clock.elapsed_ms += TURN_MS_MAX / requests_per_turn
            started_at.append(turns)
            return super().start(frame, socket)

    async def test() -> None:
        nonlocal turns
        broker = await PartsBroker().start()
        at = Fixture(lambda clock: CostlyDispatcher(broker, clock))
        requests = [encode_request(MetadataRequest(topics=None), 12, number) for number in range(count)]
        at.socket.feed(b"".join(requests))
        while at.clock.next_turn:
            (turn,) = at.clock.next_turn
            at.clock.next_turn.clear()
            turns += 1
            turn()
        assert started_at == [number // requests_per_turn for number in range(count)]
        assert answered(at.socket.sent) == list(range(count))

    def answered(data: bytearray) -> list[int]:
        found = []
        while data:
            size_bytes, correlation_id = struct.unpack_from(">ii", data)
            found.append(correlation_id)
            del data[: 4 + size_bytes]
        return found

    asyncio.run(test())


def test_requests_that_waited_leave_others_their_turn_too() -> None:
    async def test(at: Fixture) -> None:
        future = at.later(b"first")
        at.echo.cost_ms = TURN_MS_MAX / 4
        at.echo.special[b"first"] = lambda: EchoReply(None, answer(future))
        at.socket.feed(b"".join(frame(body) for body in (b"first", *(b"%d" % number for number in range(9)))))
        future.set_result(b".")
        await settle()
        assert len(at.echo.started) == 1 + 4, "a turn begins when the answer that held them back is there"
        assert len(at.clock.next_turn) == 1

    async def answer(future: "asyncio.Future[bytes]") -> bytes:
        return await future

    run(test)


def test_a_large_answer_leaves_others_their_turn() -> None:
    async def test(at: Fixture) -> None:
        size_bytes = 2 * TURN_BYTES_MAX + 100
        file = MemoryDisk().open("/log")
        file.write(0, bytes(size_bytes))
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 0, size_bytes, 0))
        at.socket.feed(frame(b"fetch") + frame(b"next"))
        assert len(at.socket.sent) == TURN_BYTES_MAX
        turns = 1
        while at.socket.writable is not None:
            assert at.echo.started == [b"fetch", b"next"]
            at.socket.writable()
            turns += 1
        assert turns == 3
        assert at.socket.sent == b"=" + bytes(size_bytes) + b"<next>"

    run(test)


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    async def test(at: Fixture) -> None:
        at.socket.window = 5
        at.socket.feed(frame(b"first") + frame(b"second"))
        assert at.socket.sent == b"<firs"
        assert at.socket.readable is None
        at.socket.window = 1 << 40
        assert at.socket.writable is not None
        at.socket.writable()
        assert at.socket.sent == b"<first><second>"
        assert at.socket.readable is not None
        assert at.socket.writable is None

    run(test)


@pytest.mark.parametrize("window", [1, 3, 10, 1000])
def test_a_range_of_a_file_is_sent_in_its_place(window: int) -> None:
    async def test(at: Fixture) -> None:
        file = MemoryDisk().open("/log")
        file.write(0, b"0123456789")
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 2, 6, 0))
        at.socket.window = window
        at.socket.feed(frame(b"a") + frame(b"fetch") + frame(b"b"))
        while at.socket.writable is not None:
            at.socket.window = window
            at.socket.writable()
        assert at.socket.sent == b"<a>=234567<b>"

    run(test)


def test_a_file_that_ends_too_soon_closes_rather_than_leaving_a_hole() -> None:
    async def test(at: Fixture) -> None:
        file = MemoryDisk().open("/log")
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 0, 6, 0))
        at.socket.feed(frame(b"fetch"))
        assert at.socket.closed

    run(test)


@pytest.mark.parametrize("error", [DecodeError("bad"), CloseConnection("no"), ConnectionResetError(), RuntimeError()])
def test_whatever_goes_wrong_ends_this_connection_only(error: Exception) -> None:
    async def test(at: Fixture) -> None:
        def fail() -> EchoReply:
            raise error

        at.echo.special[b"bad"] = fail
        at.socket.feed(frame(b"bad") + frame(b"after"))
        assert at.socket.closed
        assert at.echo.started == [b"bad"]
        assert at.ended == [at.connection]

    run(test)


def test_a_wait_that_fails_closes() -> None:
    async def test(at: Fixture) -> None:
        wait = at.later(b"wait")
        at.socket.feed(frame(b"wait"))
        wait.set_exception(RuntimeError("planted"))
        await settle()
        assert at.socket.closed

    run(test)


def test_when_the_client_leaves_its_waits_are_cancelled_but_not_its_changes() -> None:
    async def test(at: Fixture) -> None:
        poll, change = at.later(b"poll"), at.exclusive(b"change")
        at.socket.feed(frame(b"poll") + frame(b"change"))
        await settle()
        at.connection.close()
        assert poll.cancelled()
        change.set_result(b"done")
        await settle()
        assert change.done()
        assert not change.cancelled()
        assert at.socket.sent == b""
        assert at.ended == [at.connection]

    run(test)


def test_the_end_of_the_stream_closes() -> None:
    async def test(at: Fixture) -> None:
        at.socket.feed(frame(b"a") + b"\0\0")
        at.socket.ended = True
        assert at.socket.readable is not None
        at.socket.readable()
        assert at.socket.closed

    run(test)


def test_no_answer_where_none_is_expected() -> None:
    async def test(at: Fixture) -> None:
        at.echo.special[b"silent"] = lambda: None
        at.socket.feed(frame(b"silent") + frame(b"a"))
        assert at.socket.sent == b"<a>"

    run(test)


class ColdFile:
    """Only what was read is in memory."""

    path = "/log"

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.cached_until = 0
        self.reads: list[int] = []

    def is_cached(self, position: int, size: int) -> bool:
        return min(position + size, len(self._content)) <= self.cached_until

    def read(self, position: int, size: int) -> bytes:
        self.reads.append(position)
        self.cached_until = max(self.cached_until, position + size)
        return self._content[position : position + size]


def test_what_is_not_in_memory_is_read_elsewhere_before_it_is_sent() -> None:
    async def test(at: Fixture) -> None:
        content = bytes(range(256)) * 20_000  # five times what a turn sends
        file: Any = ColdFile(content)
        at.offload.hold = True
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 0, len(content), 0))
        at.socket.feed(frame(b"fetch") + frame(b"next"))
        assert at.socket.sent == b"=", "nothing that would wait for the disk"
        assert at.socket.writable is None, "or the event loop would spin"
        assert at.socket.readable is None
        while not at.socket.sent.endswith(b"<next>"):
            await asyncio.sleep(0)
            at.offload.release()
            await asyncio.sleep(0)
            if at.socket.writable is not None:
                at.socket.writable()
        assert at.socket.sent == b"=" + content + b"<next>"
        assert at.socket.readable is not None

    run(test)


def test_what_comes_next_is_read_ahead_of_a_peer_that_takes_much() -> None:
    async def test(at: Fixture) -> None:
        file: Any = ColdFile(bytes(4 * TURN_BYTES_MAX))
        file.cached_until = TURN_BYTES_MAX
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 0, TURN_BYTES_MAX, 0))
        at.socket.feed(frame(b"fetch"))
        assert len(at.socket.sent) == TURN_BYTES_MAX, "without waiting"
        for _ in range(10):
            await asyncio.sleep(0)
        assert file.cached_until == TURN_BYTES_MAX + READ_AHEAD_BYTES

    run(test)


def test_a_connection_that_ends_while_the_disk_is_read_stays_closed() -> None:
    async def test(at: Fixture) -> None:
        file: Any = ColdFile(bytes(100))
        at.offload.hold = True
        at.echo.special[b"fetch"] = lambda: EchoReply(FileRange(file, 0, 100, 0))
        at.socket.feed(frame(b"fetch"))
        await asyncio.sleep(0)
        at.connection.close()
        at.offload.release()
        for _ in range(10):
            await asyncio.sleep(0)
        assert at.socket.sent == b"="
        assert at.ended == [at.connection]

    run(test)
