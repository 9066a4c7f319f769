"""The bytes of a snapshot: what goes in comes out, and what is not whole is refused."""

import pytest

from barnabas.consensus import snapshot_file
from barnabas.consensus.messages import LogEnd
from barnabas.consensus.snapshot_file import InvalidSnapshot, SnapshotEncoder, SnapshotHead
from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.protocol.record_batch import read_headers

CHECKED_FROM = 17  # in a batch: before it stand offset, length and epoch, and nobody reads them here
VOTERS = VoterSet(
    Voter(ReplicaKey(number, bytes([number]) * 16), (VoterEndpoint("CONTROLLER", f"host-{number}", 9093),), (0, 1))
    for number in (1, 2, 3)
)


def parts(head: SnapshotHead, *values: list[bytes]) -> list[bytearray]:
    encoder = SnapshotEncoder(LogEnd(3, 70), 1000)
    return [encoder.begin(head), *(encoder.add(each) for each in values), encoder.end()]


def whole(head: SnapshotHead, *values: list[bytes]) -> memoryview:
    return memoryview(b"".join(parts(head, *values)))


@pytest.mark.parametrize("head", [SnapshotHead(900), SnapshotHead(900, 1, VOTERS)], ids=["static", "dynamic"])
def test_what_goes_in_comes_out(head: SnapshotHead) -> None:
    found, values = snapshot_file.decode(whole(head, [b"a", b"b"], [b"c"]))
    assert found == head
    assert list(values) == [b"a", b"b", b"c"]


def test_names() -> None:
    name = snapshot_file.file_name(LogEnd(3, 70))
    assert name == "00000000000000000070-0000000003.checkpoint"
    assert snapshot_file.snapshot_of(name) == LogEnd(3, 70)
    for other in ("00000000000000000070.log", "x.checkpoint", f"{name}.part", "leader-epoch-checkpoint", f"{name}x"):
        assert snapshot_file.snapshot_of(other) is None


def test_every_prefix_is_refused() -> None:
    view = whole(SnapshotHead(900, 1, VOTERS), [b"a" * 20], [b"b"])
    for size in range(len(view)):
        with pytest.raises(InvalidSnapshot):
            snapshot_file.decode(view[:size])
    snapshot_file.decode(view)


def test_a_changed_byte_is_found() -> None:
    view = whole(SnapshotHead(900), [b"a" * 20])
    for start, header in read_headers(view):
        for position in range(start + CHECKED_FROM, start + header.size_bytes):
            damaged = bytearray(view)
            damaged[position] ^= 1
            with pytest.raises(InvalidSnapshot):
                snapshot_file.decode(memoryview(damaged))


def test_a_header_and_a_footer_must_be_there() -> None:
    first, middle, last = parts(SnapshotHead(900), [b"a"])
    for wrong in (first + middle, middle + last, last + middle + first, first + last + middle, bytearray()):
        with pytest.raises(InvalidSnapshot):
            snapshot_file.decode(memoryview(bytes(wrong)))
