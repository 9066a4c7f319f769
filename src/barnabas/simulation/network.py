"""A network in memory, with everything that goes wrong on real ones.

Hosts have names. A connection is two pipes, one each way; a pipe delivers what it was given in order, each piece after
some delay, and takes no more than a window of bytes that were not read. Between two hosts each direction may be
blocked: then nothing arrives, and what was sent waits, as with TCP, until the block ends. Connections may be reset,
hosts may lose power, processes may end and leave the rest to their kernel.

Always holds: bytes arrive in order, once, or the connection ends. Whoever polls is called again while there is
something to read or room to write, as with epoll. Chance comes from one `Random`, in the order of the calls.
Does not know: what the bytes mean.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random
from typing import Literal

from barnabas.runtime.interfaces import Address, Buffer, File, Socket
from barnabas.simulation.loop import VirtualLoop
from barnabas.simulation.trace import Trace

EPHEMERAL_PORT_FIRST = 49152
BACKLOG_MAX = 128

Ending = Literal["end", "reset", "opened"]  # what travels in a pipe besides bytes


@dataclass(slots=True, kw_only=True)
class NetworkProfile:
    """How the network is when nothing is wrong with it. Drawn from the seed, once for each run."""

    delay_ms_min: float = 0.05
    delay_ms_max: float = 1.0
    spike_rate: float = 0.0  # how many pieces are late
    spike_ms_max: float = 100.0
    window_bytes: int = 1 << 18
    fragment_rate: float = 0.0  # how many sends and reads are cut at some byte
    connect_timeout_ms: float = 10_000.0


class Pipe:
    """One direction of a connection: from what `source` sends to what `target` may read."""

    __slots__ = ("_items", "_network", "_timer", "is_cut", "source", "target")

    def __init__(self, network: "SimulatedNetwork", source: "SimulatedSocket", target: "SimulatedSocket") -> None:
        self._network = network
        self.source = source
        self.target = target
        self._items: deque[tuple[float, bytes | Ending]] = deque()  # with the moment of their arrival, in order
        self._timer: asyncio.TimerHandle | None = None  # for the first item; None while blocked or empty
        self.is_cut = False  # the sender lost power: nothing more comes out of here

    @property
    def route(self) -> tuple[str, str]:
        return self.source.local_address[0], self.target.local_address[0]

    def put(self, item: bytes | Ending) -> None:
        arrival = self._network.arrival()
        if self._items:
            arrival = max(arrival, self._items[-1][0])
        self._items.append((arrival, item))
        self.schedule()

    def schedule(self) -> None:
        """Waits for the first item, unless the way is blocked."""
        if self._timer is None and self._items and not self._network.is_blocked(*self.route):
            loop = self._network.loop
            when = max(self._items[0][0], loop.time())
            self._timer = loop.call_at(when, self._deliver, context=loop.world)

    def hold(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cut(self) -> None:
        """Nothing that has not arrived ever will."""
        self.is_cut = True
        self.hold()
        self._items.clear()

    def _deliver(self) -> None:
        self._timer = None
        now = self._network.loop.time()
        while self._items and self._items[0][0] <= now:
            self.target.arrived(self._items.popleft()[1])
        self.schedule()


class Watch:
    """One callback that is called while a condition holds, once per turn of the loop."""

    __slots__ = ("_callback", "_condition", "_context", "_loop", "_scheduled")

    def __init__(self, loop: VirtualLoop, condition: Callable[[], bool]) -> None:
        self._loop = loop
        self._condition = condition
        self._callback: Callable[[], None] | None = None
        self._context: Context | None = None  # of the process that watches
        self._scheduled = False

    def set(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback
        self._context = copy_context() if callback is not None else None
        self.check()

    def check(self) -> None:
        if self._callback is not None and not self._scheduled and self._condition():
            self._scheduled = True
            self._loop.call_soon(self._fire, context=self._context)

    def _fire(self) -> None:
        self._scheduled = False
        if self._callback is not None and self._condition():
            self._callback()
        self.check()


class SimulatedSocket:
    """See `runtime.interfaces.Socket`."""

    def __init__(self, network: "SimulatedNetwork", local_address: Address, peer_address: Address) -> None:
        self.local_address = local_address
        self.peer_address = peer_address
        self.outgoing: Pipe  # set by whoever makes the pair
        self._network = network
        self._received: deque[memoryview] = deque()
        self._unread_bytes = 0  # received, or on its way, from the sender's point of view
        self._credit_bytes = 0  # read here, while the way back to the sender was blocked
        self._ended = False
        self._reset = False
        self._closed = False
        self.is_silent = False  # its host lost power: it neither hears nor answers
        self.on_opened: Callable[[bool], None] | None = None  # while connecting: told once whether it worked
        self._readable = Watch(network.loop, self._is_readable)
        self._writable = Watch(network.loop, self._is_writable)

    def __repr__(self) -> str:
        local, peer = self.local_address, self.peer_address
        return f"{local[0]}:{local[1]}>{peer[0]}:{peer[1]}"

    # What its owner calls

    def receive_into(self, buffer: memoryview) -> int:
        self._check_open()
        if self._received:
            chunk = self._received.popleft()
            size = self._network.fragment(min(len(chunk), len(buffer)))
            buffer[:size] = chunk[:size]
            if size < len(chunk):
                self._received.appendleft(chunk[size:])
            self._credit_bytes += size
            self.return_credit()
            return size
        if self._reset:
            raise ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
        if self._ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing to read")

    def send(self, data: Buffer, more: bool = False) -> int:
        size = self._network.fragment(self._room(len(data)))
        with memoryview(data) as view:
            return self._put(bytes(view[:size]))

    def send_file(self, file: File, position: int, size: int) -> int:
        room = self._network.fragment(self._room(size))
        data = file.read(position, room)
        return self._put(data) if data else 0

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self._readable.set(callback)

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self._writable.set(callback)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._readable.set(None)
        self._writable.set(None)
        if not self._reset and not self.is_silent:
            # As TCP: who hangs up without having read everything says so by a reset.
            self.outgoing.put("reset" if self._received else "end")
        self._received.clear()
        self._network.forget(self)

    def _room(self, size: int) -> int:
        self._check_open()
        if self._reset:
            raise ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
        room = self._network.profile.window_bytes - self.outgoing.target._unread_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the peer's window is full")
        return min(size, room)

    def _put(self, data: bytes) -> int:
        if not self.outgoing.is_cut:
            self.outgoing.target._unread_bytes += len(data)
            self.outgoing.put(data)
        return len(data)

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "socket is closed")

    def _is_readable(self) -> bool:
        return not self._closed and bool(self._received or self._ended or self._reset)

    def _is_writable(self) -> bool:
        if self._closed:
            return False
        # As a kernel: not for every byte that gets free, or a small window would fill one byte at a time.
        return self._reset or self.outgoing.target._unread_bytes <= self._network.profile.window_bytes * 2 // 3

    # What the network calls

    def arrived(self, item: bytes | Ending) -> None:
        network = self._network
        if self.is_silent:
            if not network.is_dark(self.local_address[0]):
                self.outgoing.put("reset")  # the host is back, and has never heard of this connection
            return
        if isinstance(item, bytes):
            network.trace.note(f"net {self!r} gets {len(item)} bytes", item)
            if self._closed:
                self.outgoing.put("reset")  # there is nobody any more
                return
            self._received.append(memoryview(item))
        elif item == "opened":
            self._opened(True)
        elif item == "reset":
            network.trace.note(f"net {self!r} is reset")
            self.reset()
        else:
            self._ended = True
        self._readable.check()

    def return_credit(self) -> None:
        """What was read makes room at the sender, if the news of it gets there."""
        if self._credit_bytes and not self._network.is_blocked(*self.outgoing.route):
            self._unread_bytes -= self._credit_bytes
            self._credit_bytes = 0
            self.outgoing.target._writable.check()

    def reset(self) -> None:
        self._reset = True
        self._received.clear()
        self._opened(False)
        self._readable.check()
        self._writable.check()
        self._network.forget(self)

    def _opened(self, success: bool) -> None:
        if self.on_opened is not None:
            told, self.on_opened = self.on_opened, None
            told(success)


class SimulatedListener:
    """See `runtime.interfaces.Listener`."""

    def __init__(self, network: "SimulatedNetwork", address: Address) -> None:
        self.address = address
        self._network = network
        self._waiting: deque[SimulatedSocket] = deque()
        self._accept: Callable[[Socket], None] | None = None
        self._watch = Watch(network.loop, lambda: bool(self._waiting))

    def start(self, accept: Callable[[Socket], None]) -> None:
        self._accept = accept
        self._watch.set(self._accept_one)

    def connected(self, socket: SimulatedSocket) -> bool:
        if len(self._waiting) >= BACKLOG_MAX:
            return False
        self._waiting.append(socket)
        self._watch.check()
        return True

    def close(self) -> None:
        self._watch.set(None)
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]
        while self._waiting:
            self._waiting.popleft().close()

    def _accept_one(self) -> None:
        assert self._accept is not None
        self._accept(self._waiting.popleft())


class HostNetwork:
    """The network as one host sees it: `runtime.interfaces.Network`."""

    def __init__(self, network: "SimulatedNetwork", name: str) -> None:
        self._network = network
        self.name = name

    def listen(self, host: str, port: int, send_buffer_bytes: int = -1) -> SimulatedListener:
        """How much a peer takes at once is the network's to say here."""
        address = (host or self.name, port or self._network.free_port())
        if address[0] != self.name:
            raise OSError(errno.EADDRNOTAVAIL, f"{address[0]} is not an address of {self.name}")
        if address in self._network.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {self.name} is taken")
        listener = self._network.listeners[address] = SimulatedListener(self._network, address)
        return listener

    async def connect(self, host: str, port: int) -> SimulatedSocket:
        network = self._network
        near = SimulatedSocket(network, (self.name, network.free_port()), (host, port))
        far = SimulatedSocket(network, (host, port), near.local_address)
        network.pair(near, far)
        opened: asyncio.Future[bool] = network.loop.create_future()
        near.on_opened = lambda success: None if opened.done() else opened.set_result(success)
        network.knock(near, far)
        try:
            async with asyncio.timeout(network.profile.connect_timeout_ms / 1000):
                success = await opened
        except TimeoutError:
            near.close()
            raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer") from None
        except BaseException:
            near.close()
            raise
        if not success:
            near.close()
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {host}:{port}")
        return near


class SimulatedNetwork:
    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace, profile: NetworkProfile) -> None:
        self.loop = loop
        self.trace = trace
        self.profile = profile
        self.listeners: dict[Address, SimulatedListener] = {}
        self._random = random
        self._sockets: dict[SimulatedSocket, None] = {}  # those that are open, in the order of their making
        self._blocked: dict[tuple[str, str], int] = {}  # from, to: how many reasons there are
        self._dark: dict[str, None] = {}  # hosts without power
        self._next_port = EPHEMERAL_PORT_FIRST

    def host(self, name: str) -> HostNetwork:
        return HostNetwork(self, name)

    # Faults

    def block(self, source: str, target: str) -> None:
        """Nothing gets from one host to the other until as many `unblock` have followed."""
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1
        for pipe in self._pipes():
            if pipe.route == (source, target):
                pipe.hold()

    def unblock(self, source: str, target: str) -> None:
        left = self._blocked[source, target] - 1
        self._blocked[source, target] = left
        if left == 0:
            del self._blocked[source, target]
            for pipe in self._pipes():
                if pipe.route == (source, target):
                    pipe.schedule()
                    pipe.source.return_credit()

    def reset_one(self) -> SimulatedSocket | None:
        """Ends some connection, for both its ends, each hearing of it in its own time."""
        if not self._sockets:
            return None
        socket = self._random.choice(list(self._sockets))
        socket.outgoing.put("reset")
        socket.reset()
        return socket

    def process_ended(self, host: str) -> None:
        """The kernel closes what the process had open; what it had sent still arrives."""
        for listener in [each for address, each in self.listeners.items() if address[0] == host]:
            listener.close()
        for socket in [each for each in self._sockets if each.local_address[0] == host]:
            socket.close()

    def power_lost(self, host: str) -> None:
        """Nobody is told. Whoever sends something to the host once it is up again learns that it knows nothing."""
        self._dark[host] = None
        for address in [each for each in self.listeners if each[0] == host]:
            del self.listeners[address]
        for socket in [each for each in self._sockets if each.local_address[0] == host]:
            socket.is_silent = True
            socket.outgoing.cut()
            self.forget(socket)

    def power_returned(self, host: str) -> None:
        self._dark.pop(host, None)

    # What pipes and sockets call

    def is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked

    def is_dark(self, host: str) -> bool:
        return host in self._dark

    def arrival(self) -> float:
        profile, random = self.profile, self._random
        delay_ms = random.uniform(profile.delay_ms_min, profile.delay_ms_max)
        if profile.spike_rate and random.random() < profile.spike_rate:
            delay_ms += random.uniform(0, profile.spike_ms_max)
        return self.loop.time() + delay_ms / 1000

    def fragment(self, size: int) -> int:
        rate = self.profile.fragment_rate
        if size > 1 and rate and self._random.random() < rate:
            return self._random.randint(1, size)
        return size

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def pair(self, near: SimulatedSocket, far: SimulatedSocket) -> None:
        near.outgoing = Pipe(self, near, far)
        far.outgoing = Pipe(self, far, near)
        self._sockets[near] = None
        self._sockets[far] = None

    def knock(self, near: SimulatedSocket, far: SimulatedSocket) -> None:
        """The first packet of a connection: it is opened, refused, or nobody answers."""

        def at_the_door(success: bool) -> None:
            if not success:
                return
            listener = self.listeners.get(far.local_address)
            if far.local_address[0] in self._dark:
                far.is_silent = True
                self.forget(far)
            elif listener is None or not listener.connected(far):
                far.outgoing.put("reset")
                self.forget(far)
            else:
                far.outgoing.put("opened")

        far.on_opened = at_the_door
        near.outgoing.put("opened")

    def forget(self, socket: SimulatedSocket) -> None:
        self._sockets.pop(socket, None)

    def _pipes(self) -> list[Pipe]:
        """Those that may hold something: a closed socket's last words may still be on their way."""
        pipes: dict[Pipe, None] = {}
        for socket in self._sockets:
            pipes[socket.outgoing] = None
            pipes[socket.outgoing.target.outgoing] = None
        return list(pipes)
