"""Keys go where Java's client sends them; records without keys stay together for a while."""

from itertools import pairwise
from random import Random

import pytest

from barnabas.client.producing.partitioner import StickyChoice, murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # As Kafka's own test of this hash has them, signed.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFF_FFFF


def test_they_agree_with_another_client() -> None:
    kafka = pytest.importorskip("kafka.partitioner.default")
    random = Random(7)
    for _ in range(300):
        key = random.randbytes(random.randrange(40))
        assert partition_of_key(key, 12) == (kafka.murmur2(key) & 0x7FFF_FFFF) % 12


def test_a_partition_is_kept_for_a_batch() -> None:
    sticky = StickyChoice(Random(1), 100)
    chosen = [sticky.choose(25, [0, 1, 2]) for _ in range(40)]
    stretches = [chosen[first : first + 4] for first in range(0, 40, 4)]
    assert all(len(set(each)) == 1 for each in stretches)
    assert all(before[0] != after[0] for before, after in pairwise(stretches))
    assert set(chosen) == {0, 1, 2}


def test_one_partition_is_enough() -> None:
    sticky = StickyChoice(Random(1), 10)
    assert {sticky.choose(25, [4]) for _ in range(10)} == {4}
