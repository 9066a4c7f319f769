"""From where to where: what is read, and where a reset puts a group."""

from __future__ import annotations

import pytest

from barnabas.cli.bounds import Bound, parsed
from barnabas.cli.group_offsets import Reset, settled
from barnabas.cli.text import CommandFailed, Exit


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("beginning", Bound(word="beginning")),
        ("earliest", Bound(word="beginning")),
        ("end", Bound(word="end")),
        ("latest", Bound(word="end")),
        ("0", Bound(offset=0)),
        ("4711", Bound(offset=4711)),
        ("-10", Bound(before_end=10)),
        ("@99", Bound(timestamp_ms=99)),
        ("1970-01-01T00:00:02", Bound(timestamp_ms=2000)),
    ],
)
def test_bounds(text: str, bound: Bound) -> None:
    assert parsed(text) == bound


def test_a_stretch_is_counted_from_now() -> None:
    hour, two = parsed("1h").timestamp_ms, parsed("PT2H").timestamp_ms
    assert hour is not None
    assert two is not None
    assert 3_500_000 < hour - two < 3_700_000


@pytest.mark.parametrize("text", ["", "soon", "--1", "1.5", "h"])
def test_what_says_not_where(text: str) -> None:
    with pytest.raises(ValueError, match="says not where"):
        parsed(text)


@pytest.mark.parametrize(
    ("bound", "since", "offset"),
    [
        (Bound(word="beginning"), None, 5),
        (Bound(word="end"), None, 20),
        (Bound(offset=7), None, 7),
        (Bound(before_end=3), None, 17),
        (Bound(before_end=100), None, 5),
        (Bound(timestamp_ms=1), 9, 9),
        (Bound(timestamp_ms=1), None, 20),
    ],
)
def test_offsets_within_a_partition(bound: Bound, since: int | None, offset: int) -> None:
    assert bound.within(5, 20, since) == offset


@pytest.mark.parametrize(
    ("reset", "current", "since", "offset"),
    [
        (Reset(earliest=True), 10, -1, 5),
        (Reset(latest=True), 10, -1, 20),
        (Reset(current=True), 10, -1, 10),
        (Reset(current=True), None, -1, 20),
        (Reset(current=True), 2, -1, 5),
        (Reset(offset=7), None, -1, 7),
        (Reset(offset=0), None, -1, 5),
        (Reset(offset=99), None, -1, 20),
        (Reset(shift=3), 10, -1, 13),
        (Reset(shift=-3), 10, -1, 7),
        (Reset(shift=-30), 10, -1, 5),
        (Reset(timestamp_ms=1), 10, 8, 8),
        (Reset(timestamp_ms=1), 10, -1, 20),
    ],
)
def test_resets(reset: Reset, current: int | None, since: int, offset: int) -> None:
    assert settled(reset, current, 5, 20, since) == offset


@pytest.mark.parametrize("given", [{}, {"earliest": True, "latest": True}, {"offset": 0, "moment": "1970-01-01"}])
def test_a_reset_goes_to_one_place(given: dict[str, object]) -> None:
    with pytest.raises(CommandFailed, match="say where to") as failure:
        Reset.of(**given)  # type: ignore[arg-type]
    assert failure.value.code is Exit.USAGE


def test_times_of_resets() -> None:
    assert Reset.of(moment="@5", earliest=False, offset=None) == Reset(timestamp_ms=5)
    with pytest.raises(CommandFailed, match="is no moment"):
        Reset.of(moment="soon")
    with pytest.raises(CommandFailed, match="is no duration"):
        Reset.of(duration="soon")
