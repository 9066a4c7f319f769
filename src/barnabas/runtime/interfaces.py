"""What Barnabas may ask of the world, as small interfaces.

Everything above receives these by its constructor. Therefore the same broker runs on the real machine
(`runtime.system`), in memory (`runtime.memory_disk`), and in a simulation with a virtual clock and faults.

Always holds: nothing here blocks on the network. Disk calls block for as long as the page cache takes; what
waits for the platter (`sync`) is called through `offload`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

A = TypeVar("A")
T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
Address = tuple[str, int]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970. May jump either way: fit for timestamps, never for deadlines."""

    def monotonic_ms(self) -> float:
        """Never falls; its zero means nothing."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer: ...

    async def sleep(self, delay_ms: float) -> None: ...


class File(Protocol):
    """One open file. Every method raises OSError where the disk fails."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Fewer bytes than asked only where the file ends."""

    def is_cached(self, position: int, size: int) -> bool:
        """Whether a read would not wait for the platter. A guess from the ends of the range, and cheap."""

    def write(self, position: int, data: Buffer) -> None:
        """All of the data or OSError; after an error any part of it may have been written."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns once what was written survives a loss of power. May be called from another thread."""

    def close(self) -> None: ...


class MappedFile(Protocol):
    """A file seen as memory, for indexes. `view` is writable and as long as the file."""

    @property
    def view(self) -> memoryview: ...

    def reserve(self, position: int, size: int) -> None:
        """Writes zeros there through the file, so that a full disk is an OSError now and not a fault at the touch."""

    def resize(self, size: int) -> None:
        """Grows with zeros or cuts. Views taken before are invalid afterwards."""

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Paths are plain strings with forward slashes. Every method raises OSError where the disk fails."""

    def open(self, path: str, *, create: bool = True) -> File:
        """For reading and writing; created empty if missing, or else FileNotFoundError."""

    def map(self, path: str, size: int) -> MappedFile:
        """Created if missing; grown with zeros to at least `size` bytes."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def list_directory(self, path: str) -> list[str]:
        """Names, sorted: the order of a directory is otherwise a matter of chance."""

    def make_directories(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces the target. Durable after `sync_directory` of the parent."""

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """With everything in it."""

    def sync_file(self, path: str) -> None:
        """As `File.sync`, for a file that need not be open. FileNotFoundError where there is none."""

    def sync_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Readers see the old content or the new, never a mixture, even after a crash: write aside, sync, rename."""

    def lock(self, path: str) -> "Lock":
        """Exclusive among processes; raises BlockingIOError where another holds it."""

    def space_bytes(self, path: str) -> tuple[int, int]:
        """Total and free bytes of the volume that holds the path."""


class Lock(Protocol):
    def release(self) -> None: ...


class Socket(Protocol):
    """A connected, non-blocking stream. Its owner reads and writes when told that it may."""

    @property
    def local_address(self) -> Address: ...

    @property
    def peer_address(self) -> Address: ...

    def receive_into(self, buffer: memoryview) -> int:
        """Bytes received; 0 at the end of the stream. BlockingIOError where there is nothing yet."""

    def send(self, data: Buffer, more: bool = False) -> int:
        """Bytes taken, perhaps fewer than given. BlockingIOError where the peer's window is full.

        `more` says that other bytes follow at once, so that they may share a packet.
        """

    def send_file(self, file: File, position: int, size: int) -> int:
        """As `send`, from a file, without passing through Python. 0 where the file has ended."""

    def on_readable(self, callback: Callable[[], None] | None) -> None: ...

    def on_writable(self, callback: Callable[[], None] | None) -> None: ...

    def close(self) -> None: ...


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """As bound: a port of 0 has become a real one."""

    def start(self, accept: Callable[[Socket], None]) -> None:
        """Until then, peers that connect wait."""

    def close(self) -> None: ...


class Network(Protocol):
    def listen(self, host: str, port: int, send_buffer_bytes: int = -1) -> Listener:
        """Takes the address; OSError where it cannot be had. A buffer of -1 bytes is as large as the system likes."""

    async def connect(self, host: str, port: int) -> Socket: ...


class Offload(Protocol):
    """Runs a blocking call elsewhere, so that the event loop goes on."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]: ...


class Background(Protocol):
    """Runs work that would hold up the event loop for long, in another process or in small steps."""

    def __call__(
        self,
        work: Callable[[Disk, A], Iterator[T | int]],
        argument: A,
        *,
        bytes_per_second: float,
    ) -> AsyncGenerator[T, None]:
        """What the work tells; the numbers among it, bytes that it has moved, are its steps and are kept.

        The work and its argument may be sent to another process.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The world, handed to a broker as one value."""

    clock: Clock
    disk: Disk
    network: Network
    random: Random
    offload: Offload
    background: Background
