"""When rows of a table may be read: numbers, names and time."""

from __future__ import annotations

import pytest

from barnabas.spark.pipelines.settled_rows import Sighting

SEEN = Sighting(end=7, at_s=100.0, settle_s=0.0, writers=frozenset({"3/17 (process 5)", "4/2 (process 6)"}))


@pytest.mark.parametrize(
    ("writers", "reason"),
    [
        (set(), None),
        ({"4/2 (process 6)", "9/1 (process 8)"}, "open transactions 4/2 (process 6)"),
        ({"3/18 (process 5)", "9/1 (process 8)"}, None),  # they began later
        ({"-1/735 (process 0)"}, "open transactions -1/735 (process 0)"),  # prepared: perhaps one of the two
    ],
)
def test_who_wrote_when_a_number_was_seen_must_end(writers: set[str], reason: str | None) -> None:
    assert SEEN.held_back_by(frozenset(writers), 100.0) == reason


def test_where_nobody_tells_time_must_pass() -> None:
    seen = Sighting(end=7, at_s=100.0, settle_s=10.0, writers=frozenset())
    assert seen.held_back_by(frozenset(), 109.0) == "1.0 seconds to pass"
    assert seen.held_back_by(frozenset(), 110.0) is None
