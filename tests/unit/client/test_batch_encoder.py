"""The fast encoder writes what the plain one does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.producing.batch_encoder import encode_columns, stamp
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Header, Record, crc_matches, decode_records, encode_batch, read_header

SIZES = st.sampled_from([1, 3, 4, 63, 64, 65, 130, 300])


def check(
    values: list[bytes | None],
    keys: list[bytes | None] | None,
    headers: list[list[Header]] | None,
    timestamps_ms: list[int],
) -> None:
    records = [
        Record(place, timestamps_ms[place], (keys and keys[place]) or None, value, headers[place] if headers else [])
        for place, value in enumerate(values)
    ]
    assert encode_columns(values, keys, headers, timestamps_ms) == encode_batch(records)


@given(
    SIZES,
    st.integers(0, 200),
    st.none() | st.integers(1, 100),
    st.lists(st.integers(-100, 10_000_000), min_size=1, max_size=3),
)
def test_records_of_one_size(count: int, value_bytes: int, key_bytes: int | None, moments_ms: list[int]) -> None:
    timestamps_ms = sorted(1_000 + moments_ms[place % len(moments_ms)] for place in range(count))
    keys: list[bytes | None] | None = None
    if key_bytes is not None:
        keys = [bytes([place % 251]) * key_bytes for place in range(count)]
    check([bytes([place % 256]) * value_bytes for place in range(count)], keys, None, timestamps_ms)


@settings(max_examples=25)
@given(st.data(), SIZES)
def test_records_of_any_size(data: st.DataObject, count: int) -> None:
    some = st.none() | st.binary(min_size=1, max_size=90)
    values = data.draw(st.lists(some, min_size=count, max_size=count))
    keys = data.draw(st.none() | st.lists(some, min_size=count, max_size=count))
    header = st.tuples(st.text(max_size=3), some)
    headers = data.draw(st.none() | st.lists(st.lists(header, max_size=2), min_size=count, max_size=count))
    timestamps_ms = data.draw(st.lists(st.integers(0, 1 << 40), min_size=count, max_size=count))
    check(values, keys, headers, timestamps_ms)


def test_large_batches() -> None:
    for count in (4096, 4097, 9000):
        check([b"x" * 10] * count, None, None, [5] * count)
    check([b"x" * 20_000] * 5, [b"k" * 9000] * 5, None, [1, 2, 2, 3, 3])


def test_whose_a_batch_is_can_be_said_again() -> None:
    for codec in Codec:
        batch = encode_columns([b"a" * 50] * 9, None, None, [7] * 9, codec=codec, transactional=True)
        for identity in ((5, 1, 0), (5, 2, 77)):
            stamp(batch, *identity)
            header = read_header(batch)
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == identity
            assert header.is_transactional
            assert crc_matches(memoryview(batch), 0, header)
            assert [record.value for record in decode_records(batch)] == [b"a" * 50] * 9
