"""Feeds damaged record batches, snapshots and checkpoints to their decoders.

A finding is any exception but the one that each decoder promises, a batch that recompression changes, or a case that
takes long.
"""

import random
from collections.abc import Callable
from contextlib import suppress

from harness import arguments, mutated, run
from values import random_batch

from barnabas.log import checkpoint
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.log.producer_state import CorruptSnapshot, ProducerStates
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec, DecompressionError, compress, decompress
from barnabas.protocol.control_records import decode_transaction_marker
from barnabas.protocol.record_batch import (
    InvalidRecordBatch,
    crc_matches,
    decode_records,
    read_header,
    read_headers,
    recompress,
)
from barnabas.types import TopicPartition

SIZE_MAX = 1 << 20


def case(chance: random.Random) -> str:
    return chance.choice((_batch, _batch, _batch, _codec, _snapshot, _checkpoint))(chance)


def _batch(chance: random.Random) -> str:
    data = bytearray(mutated(bytes(random_batch(chance)), chance))
    if chance.random() < 0.5 and len(data) > 61:
        # Make the damage pass the outer checks, so that it reaches the records.
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[16] = 2
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    view = memoryview(data)
    try:
        headers = list(read_headers(view))
    except InvalidRecordBatch:
        return "batch refused"
    for position, header in headers:
        crc_matches(view, position, header)
        try:
            records = decode_records(view, position, size_max=SIZE_MAX)
        except InvalidRecordBatch:
            return "records refused"
        for record in records:
            with suppress(InvalidRecordBatch):
                decode_transaction_marker(record)
        again = recompress(view, chance.choice(list(Codec)), position=position, size_max=SIZE_MAX)
        assert crc_matches(memoryview(again), 0, read_header(again))
        assert decode_records(again) == records
    return "batch read"


def _codec(chance: random.Random) -> str:
    codec = chance.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    data = chance.randbytes(chance.randint(0, 50)) * chance.choice((1, 10, 3_000))
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    try:
        unpacked = decompress(codec, mutated(packed, chance), SIZE_MAX)
    except DecompressionError:
        return "packed data refused"
    assert len(unpacked) <= SIZE_MAX
    return "packed data read"


def _snapshot(chance: random.Random) -> str:
    states = ProducerStates()
    for _ in range(chance.randint(0, 4)):
        header = read_header(random_batch(chance))
        if header.has_producer_id and not header.is_control:
            states.append(header, chance.randint(0, 1_000))
    data = bytearray(mutated(states.encode(), chance))
    if len(data) > 6:
        data[2:6] = crc32c(data[6:]).to_bytes(4, "big")
    again = ProducerStates()
    try:
        again.load(bytes(data), now_ms=0)
    except CorruptSnapshot:
        return "snapshot refused"
    again.encode()
    return "snapshot read"


_CHECKPOINTS: tuple[tuple[bytes, Callable[[bytes], object]], ...] = (
    (checkpoint.encode_offsets({TopicPartition("a", 0): 5}), lambda data: checkpoint.decode_offsets(data, "file")),
    (checkpoint.encode_partition_metadata(b"0123456789abcdef"), checkpoint.decode_partition_metadata),
    (
        checkpoint.encode_meta_properties(checkpoint.MetaProperties("c", 1, b"0123456789abcdef")),
        checkpoint.decode_meta_properties,
    ),
    (checkpoint.encode_quorum_state(checkpoint.QuorumState(1, 2, 3)), checkpoint.decode_quorum_state),
    (checkpoint.encode_quorum_state(checkpoint.QuorumState(voters=(1, 2), version=0)), checkpoint.decode_quorum_state),
    (checkpoint.encode_clean_shutdown(7), checkpoint.decode_clean_shutdown),
    (b"0\n2\n0 0\n3 10\n", LeaderEpochs.decode),
)


def _checkpoint(chance: random.Random) -> str:
    data, decode = chance.choice(_CHECKPOINTS)
    try:
        decode(mutated(data, chance))
    except checkpoint.CheckpointError:
        return "checkpoint refused"
    return "checkpoint read"


if __name__ == "__main__":
    run(case, arguments(__doc__.splitlines()[0]))
