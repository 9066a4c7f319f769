"""Moments and stretches as people write them."""

from __future__ import annotations

import pytest

from barnabas.cli.moments import duration_ms, iso, moment_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:00.250Z", 250),
        ("1970-01-01T01:00:00+01:00", 0),
        ("@1234", 1234),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert moment_ms(text) == expected


@pytest.mark.parametrize("text", ["yesterday", "", "@", "@-5", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is no moment"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("250ms", 250),
        ("0.5s", 500),
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
        ("P1DT1S", 86_401_000),
        ("pt2.5s", 2_500),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5", "P", "PT", "-5m", "5 m", "1h 5"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_ms(text)


def test_a_moment_is_shown_as_it_is_read() -> None:
    assert iso(1_234) == "1970-01-01T00:00:01.234Z"
    assert moment_ms(iso(1_700_000_000_123)) == 1_700_000_000_123
    assert (iso(-1), iso(1 << 62)) == ("@-1", f"@{1 << 62}")
