"""Leader epochs: where each begins and ends, what truncation leaves, and the file."""

from pathlib import Path

import pytest

from barnabas.log.checkpoint import CheckpointError
from barnabas.log.leader_epochs import EpochEnd, EpochStart, LeaderEpochs

KAFKA_FILE = Path(__file__).parents[2] / "data" / "kafka-4.3.1" / "idempotent-0" / "leader-epoch-checkpoint"


def epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*pair) for pair in pairs])


def test_assigning_says_whether_something_changed() -> None:
    history = LeaderEpochs()
    assert history.latest_epoch == -1
    assert history.latest_start_offset == -1
    assert history.assign(2, 6)
    assert not history.assign(2, 6)
    assert not history.assign(2, 900)
    assert history.assign(3, 8)
    assert history.entries == [(2, 6), (3, 8)]
    assert (history.latest_epoch, history.latest_start_offset, len(history)) == (3, 8, 2)


@pytest.mark.parametrize(
    ("epoch", "start_offset", "left"),
    [
        (5, 20, [(1, 0), (3, 10), (5, 20)]),
        (5, 10, [(1, 0), (5, 10)]),  # epoch 3 wrote nothing
        (5, 5, [(1, 0), (5, 5)]),
        (2, 20, [(1, 0), (2, 20)]),
        (3, 4, [(1, 0), (3, 4)]),
        (0, 0, [(0, 0)]),
    ],
)
def test_a_new_epoch_overrules_what_contradicts_it(epoch: int, start_offset: int, left: list[tuple[int, int]]) -> None:
    history = epochs((1, 0), (3, 10))
    assert history.assign(epoch, start_offset)
    assert history.entries == left


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),  # older than all: ends where the oldest begins
        (2, (2, 10)),
        (3, (2, 10)),
        (4, (4, 20)),
        (6, (6, 33)),  # the latest ends with the log
        (7, (-1, -1)),
    ],
)
def test_end_offsets(asked: int, answer: tuple[int, int]) -> None:
    history = epochs((2, 5), (4, 10), (6, 20))
    assert history.end_offset_for(asked, log_end_offset=33) == EpochEnd(*answer)


def test_nothing_is_known_of_an_empty_history() -> None:
    assert LeaderEpochs().end_offset_for(0, 10) == (-1, -1)
    assert LeaderEpochs().epoch_for(0) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (4, -1), (5, 2), (9, 2), (10, 4), (19, 4), (20, 6), (999, 6)])
def test_the_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert epochs((2, 5), (4, 10), (6, 20)).epoch_for(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(21, [2, 4, 6]), (20, [2, 4]), (11, [2, 4]), (10, [2]), (6, [2]), (5, []), (0, [])],
)
def test_truncation_from_the_end(end_offset: int, left: list[int]) -> None:
    history = epochs((2, 5), (4, 10), (6, 20))
    assert history.truncate_from_end(end_offset) == (left != [2, 4, 6])
    assert [entry.epoch for entry in history.entries] == left


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (0, [(2, 5), (4, 10), (6, 20)]),
        (5, [(2, 5), (4, 10), (6, 20)]),
        (7, [(2, 7), (4, 10), (6, 20)]),
        (10, [(4, 10), (6, 20)]),
        (15, [(4, 15), (6, 20)]),
        (999, [(6, 999)]),
    ],
)
def test_truncation_from_the_start(start_offset: int, left: list[tuple[int, int]]) -> None:
    history = epochs((2, 5), (4, 10), (6, 20))
    assert history.truncate_from_start(start_offset) == (left != [(2, 5), (4, 10), (6, 20)])
    assert history.entries == left


def test_clearing() -> None:
    history = epochs((2, 5))
    assert history.clear()
    assert not history.clear()
    assert history.encode() == b"0\n0\n"


def test_the_file_is_kafkas() -> None:
    data = KAFKA_FILE.read_bytes()
    assert LeaderEpochs.decode(data).entries == [(0, 0)]
    assert LeaderEpochs.decode(data).encode() == data
    assert epochs((2, 5), (4, 10)).encode() == b"0\n2\n2 5\n4 10\n"
    assert LeaderEpochs.decode(b"").entries == []


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"1\n0\n", 1),
        (b"0\nx\n", 2),
        (b"0\n2\n1 1\n", 2),
        (b"0\n1\n1\n", 3),
        (b"0\n2\n0 0\n1 -1\n", 4),
        (b"0\n1\nx 1\n", 3),
        (b"0\n1\n1 2 3\n", 3),
    ],
)
def test_a_broken_file_is_named_with_its_line(data: bytes, line: int) -> None:
    with pytest.raises(CheckpointError, match=f"^here: line {line}: ") as caught:
        LeaderEpochs.decode(data, "here")
    assert (caught.value.path, caught.value.line) == ("here", line)


def test_an_epoch_that_leads_counts_before_it_has_written() -> None:
    empty = LeaderEpochs().led_by(0, 0)
    assert empty.end_offset_for(0, 0) == (0, 0)
    assert empty.end_offset_for(1, 0) == (-1, -1)
    assert empty.epoch_for(0) == 0
    known = LeaderEpochs([EpochStart(2, 0)])
    led = known.led_by(5, 30)
    assert led.end_offset_for(5, 30) == (5, 30)
    assert led.end_offset_for(3, 30) == (2, 30)
    assert known.entries == [(2, 0)]
    assert known.led_by(2, 30) is known
    assert known.led_by(-1, 30) is known
