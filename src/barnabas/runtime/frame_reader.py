"""Frames from a socket: each is a length of four bytes and that many bytes.

Always holds: bytes are copied once on their way in, from the kernel into the frame's buffer. Small frames are handled
where they were received, in a buffer that all readers of one event loop share, so an idle connection holds no buffer at
all: a frame is valid until its handler returns. Memory follows the bytes received, not the length that was claimed.
Does not know: what is in a frame.
"""

from collections.abc import Callable
from struct import Struct

from barnabas.protocol.message import DecodeError
from barnabas.runtime.interfaces import Socket

RECEIVE_BYTES = 256 * 1024  # one shared buffer; more than a loopback socket usually delivers at once
FRAME_GROWTH_BYTES = 1024 * 1024 + 64 * 1024  # what a large frame gets before its bytes have arrived
SPARE_FRAMES_MAX = 4  # buffers kept for the next large frame: enough for the brokers and producers active at once
SPARE_FRAME_BYTES_MAX = 4 * FRAME_GROWTH_BYTES  # what has grown further is not kept
LENGTH_BYTES = 4

_LENGTH = Struct(">i")


class FrameBuffers:
    """The memory that readers of one event loop share."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._spare: list[bytearray] = []  # the largest last

    def take(self, size: int) -> bytearray:
        """At least `size` bytes, or as much as a frame gets before its bytes have arrived, or what is at hand."""
        if size <= RECEIVE_BYTES:
            return bytearray(size)
        return self._spare.pop() if self._spare else bytearray(FRAME_GROWTH_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        if FRAME_GROWTH_BYTES <= len(buffer) <= SPARE_FRAME_BYTES_MAX and len(self._spare) < SPARE_FRAMES_MAX:
            self._spare.append(buffer)
            self._spare.sort(key=len)

    def grown(self, buffer: bytearray, size: int) -> bytearray:
        """Twice as large, with what is in it; no larger than the frame, unless it can serve the next one as well."""
        larger = 2 * len(buffer)
        found = bytearray(larger if larger <= SPARE_FRAME_BYTES_MAX else min(larger, size))
        found[: len(buffer)] = buffer
        self.give_back(buffer)
        return found


class FrameReader:
    """`handle` is given each whole frame; `paused` says, before each, whether the owner can take one now."""

    __slots__ = (
        "_buffers",
        "_filled",
        "_frame_bytes_max",
        "_handle",
        "_held",
        "_partial",
        "_paused",
        "_size",
        "_socket",
    )

    def __init__(
        self,
        *,
        socket: Socket,
        buffers: FrameBuffers,
        frame_bytes_max: int,
        handle: Callable[[memoryview], None],
        paused: Callable[[], bool],
    ) -> None:
        self._socket = socket
        self._buffers = buffers
        self._frame_bytes_max = frame_bytes_max
        self._handle = handle
        self._paused = paused
        # At most one of these two holds bytes.
        self._partial: bytearray | None = None  # a frame of which some bytes have not arrived
        self._held = bytearray()  # whole frames, and perhaps a part of one, that came while the owner was paused
        self._filled = 0  # of the partial frame
        self._size = 0  # of the partial frame, with its length

    def receive(self) -> bool:
        """Takes what the socket has and handles what is whole. False at the end of the stream.

        BlockingIOError where the socket has nothing; DecodeError at an impossible length.
        """
        if self._partial is not None:
            return self._receive_partial(self._partial)
        scratch = self._buffers.scratch
        count = self._socket.receive_into(scratch)
        if count > 0:
            self._consume(scratch[:count])
        return count > 0

    @property
    def unfinished_length(self) -> int:
        """That a frame claims of which some bytes have not arrived; 0 where there is none."""
        return 0 if self._partial is None else self._size - LENGTH_BYTES

    def resume(self) -> None:
        """Goes on with what came while the owner was paused."""
        if self._held:
            held, self._held = self._held, bytearray()
            self._consume(memoryview(held))

    def _receive_partial(self, buffer: bytearray) -> bool:
        """Goes on with a frame that came in pieces, straight into its own buffer."""
        with memoryview(buffer) as view:
            while self._filled < min(self._size, len(buffer)):
                wanted = view[self._filled : self._size]
                count = self._socket.receive_into(wanted)
                if count == 0:
                    return False
                self._filled += count
                if count < len(wanted):
                    break
        if self._filled == self._size:
            self._partial = None
            self._consume(memoryview(buffer)[: self._size])
            self._buffers.give_back(buffer)
        elif self._filled == len(buffer):
            self._partial = self._buffers.grown(buffer, self._size)
        return True

    def _consume(self, view: memoryview) -> None:
        position = 0
        end = len(view)
        while end - position >= LENGTH_BYTES and not self._paused():
            size = self._frame_size(view, position)
            if end - position < size:
                break
            self._handle(view[position + LENGTH_BYTES : position + size])
            position += size
        if position < end:
            self._keep(view[position:])

    def _frame_size(self, view: memoryview, position: int) -> int:
        length: int = _LENGTH.unpack_from(view, position)[0]
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
        self._filled = len(rest)
        self._size = size
