"""Which partition a record goes to: by its key as Java's client does it, or to one for a while where it has none.

Always holds: the same key goes to the same partition as long as their number stays, whatever client wrote it.
Does not know: which partitions can be reached; it is told.
"""

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from struct import iter_unpack
from typing import Final

KEYS_REMEMBERED_MAX: Final = 16_384  # hashing costs about a microsecond for every ten bytes of a key
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


@lru_cache(KEYS_REMEMBERED_MAX)
def murmur2(data: bytes) -> int:
    """The 32 bit MurmurHash2 with the seed that Kafka took, as an unsigned number."""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for (word,) in iter_unpack("<I", data[:whole]):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        found = found * _M & _MASK ^ word
    rest = data[whole:]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFF_FFFF) % partition_count


class StickyChoice:
    """For records of one topic without keys: one partition for about a batch, then another (KIP-794)."""

    __slots__ = ("_bytes_left", "_random", "batch_size", "partition")

    def __init__(self, random: Random, batch_size: int) -> None:
        self._random = random
        self.batch_size = max(batch_size, 1)
        self.partition = -1  # none is chosen yet
        self._bytes_left = 0

    def choose(self, size_bytes: int, available: Sequence[int]) -> int:
        """Where a record of this size goes."""
        if self._bytes_left <= 0:
            self.switch(available)
        self._bytes_left -= size_bytes
        return self.partition

    def switch(self, available: Sequence[int]) -> int:
        """Another one, if there is another."""
        assert available
        others = [each for each in available if each != self.partition] if len(available) > 1 else available
        self.partition = others[self._random.randrange(len(others))]
        self._bytes_left = self.batch_size
        return self.partition
