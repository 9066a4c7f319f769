"""What a read gives back: a place in a file, not its bytes.

Always holds: the range keeps its file open, so that a segment removed meanwhile is still read to the end. It begins
at a whole batch and may end within one, as Kafka's answers do; clients drop the cut one.
"""

from barnabas.runtime.interfaces import File
from barnabas.types import Offset, Position


class FileRange:
    """`size_bytes` bytes of `file` from `position` on; never empty."""

    __slots__ = ("file", "position", "segment_base_offset", "size_bytes")

    def __init__(self, file: File, position: Position, size_bytes: int, segment_base_offset: Offset) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.segment_base_offset = segment_base_offset

    def read(self) -> bytes:
        """The bytes themselves, for those inside the broker who need them."""
        return self.file.read(self.position, self.size_bytes)

    def __repr__(self) -> str:
        return f"FileRange({self.file.path!r}, position={self.position}, size_bytes={self.size_bytes})"
