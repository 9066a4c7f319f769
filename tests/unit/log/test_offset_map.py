"""The last offset of each key: room for what was announced, and no more memory than was given."""

import pytest

from barnabas.log.offset_map import SLOT_BYTES, OffsetMap, OffsetMapFull


@pytest.mark.parametrize("load_factor", [0.5, 0.9, 1.0])
def test_as_many_keys_as_were_announced_fit(load_factor: float) -> None:
    for count in range(200):
        offsets = OffsetMap(1 << 20, load_factor, count)
        keys = [b"%d" % number for number in range(count)]
        assert offsets.put_all([(key, offset) for offset, key in enumerate(keys)]), count
        assert offsets.get_all([*keys, b"another"]) == [*range(count), -1]


def test_the_buffer_is_never_exceeded() -> None:
    for slots in range(3, 100):
        offsets = OffsetMap(slots * SLOT_BYTES, 0.9, 1000)
        assert offsets.size_bytes <= slots * SLOT_BYTES
        assert not offsets.put_all([(b"%d" % number, number) for number in range(1000)])
        assert offsets.size == offsets.keys_max < slots


def test_a_buffer_without_room_for_a_key() -> None:
    with pytest.raises(OffsetMapFull, match="room for 2 keys"):
        OffsetMap(2 * SLOT_BYTES, 0.9, 10)
