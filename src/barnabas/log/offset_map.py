"""The last offset of each key, in a table of fixed size: what compaction knows of the dirty part of a log.

    24 bytes a slot: the key's hash (16), offset + 1 (8); a slot of zeros is empty

Keys are told apart by a hash of 128 bits: MD5 in Kafka, here BLAKE2b, which is twice as quick for short keys. That
two keys share one is less likely than a broken disk. Collisions of slots go on in steps that the hash names too.
Always holds: at most `keys_max` keys, so that an empty slot ends every search; memory is `size_bytes`, and no more
than the keys could need. Does not know: records, files.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct

from barnabas.types import NO_OFFSET, Offset

SLOT_BYTES = 24
_WORDS = 3  # of 8 bytes in a slot

_hash_words = Struct("=QQ").unpack


class OffsetMapFull(Exception):
    """Not a single batch fits: `log.cleaner.dedupe.buffer.size` is too small."""


class OffsetMap:
    __slots__ = ("_slots", "_table", "keys_max", "latest_offset", "size")

    def __init__(self, size_bytes: int, load_factor: float, keys_expected_max: int) -> None:
        """No larger than `keys_expected_max` keys need, which spares small logs the whole buffer."""
        self._slots = _prime_at_least(int((keys_expected_max + 1) / load_factor) + 2)
        if self._slots * SLOT_BYTES > size_bytes:
            self._slots = _prime_at_most(size_bytes // SLOT_BYTES)
        self._table = memoryview(bytearray(self._slots * SLOT_BYTES)).cast("Q")
        self.keys_max = min(int(self._slots * load_factor), self._slots - 1)
        self.size = 0
        self.latest_offset: Offset = NO_OFFSET  # up to and with this one every batch of the dirty part is counted

    @property
    def size_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def put_all(self, keys: Sequence[tuple[bytes, Offset]]) -> bool:
        """Ascending by offset. False, and perhaps some of them taken, where the table is full."""
        table, slots = self._table, self._slots
        for key, offset in keys:
            first, second = _hash_words(blake2b(key, digest_size=16).digest())
            first = first or 1
            at = first % slots * _WORDS
            found = table[at]
            if found and (found != first or table[at + 1] != second):
                at = self._probe(first, second)
                found = table[at]
            if not found:
                if self.size >= self.keys_max:
                    return False
                table[at] = first
                table[at + 1] = second
                self.size += 1
            table[at + 2] = offset + 1
        return True

    def get_all(self, keys: Sequence[bytes]) -> list[Offset]:
        """For each key its last offset; -1 where it does not occur."""
        table, slots = self._table, self._slots
        offsets = []
        for key in keys:
            first, second = _hash_words(blake2b(key, digest_size=16).digest())
            first = first or 1
            at = first % slots * _WORDS
            found = table[at]
            if found and (found != first or table[at + 1] != second):
                at = self._probe(first, second)
            offsets.append(table[at + 2] - 1)
        return offsets

    def _probe(self, first: int, second: int) -> int:
        """Where the key is, or the empty slot where it would be. The number of slots is prime: steps reach them all."""
        table, slots = self._table, self._slots
        slot = first % slots
        step = 1 + second % (slots - 1)
        while True:
            slot = (slot + step) % slots
            found = table[slot * _WORDS]
            if not found or (found == first and table[slot * _WORDS + 1] == second):
                return slot * _WORDS


def _prime_at_least(number: int) -> int:
    while not _is_prime(number):
        number += 1
    return number


def _prime_at_most(number: int) -> int:
    if number < 3:
        raise OffsetMapFull(f"room for {number} keys")
    while not _is_prime(number):
        number -= 1
    return number


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
