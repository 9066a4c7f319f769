"""Moments and stretches of time as people write them.

    2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00:00.5+01:00     without a zone it is UTC, as in Kafka's tools
    @1767225600000                                                milliseconds since 1970
    PT1H30M, P2D, 90s, 1h30m, 2d                                  stretches

Pure. ValueError, with what is allowed, on anything else.
"""

import re
from datetime import UTC, datetime

_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DATE_MS_MAX = 253_402_300_799_999  # the end of the year 9999
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|w|d|h|m|s)")
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def moment_ms(text: str) -> int:
    """A date, a date and a time, or @ and milliseconds. What lies before 1970 is the beginning of 1970."""
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment: 2026-01-31T12:00:00 or @ and milliseconds are wanted") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(int(moment.timestamp() * 1000), 0)


def moment_before_ms(now_ms: int, text: str) -> int:
    """So long before now, and likewise not before 1970."""
    return max(now_ms - duration_ms(text), 0)


def duration_ms(text: str) -> int:
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso.groups()):
        return int(sum(float(number) * _UNITS_MS[unit] for unit, number in iso.groupdict().items() if number))
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: 90s, 1h30m, 2d or PT1H30M are wanted")
    return int(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def iso(timestamp_ms: int) -> str:
    if not 0 <= timestamp_ms <= _DATE_MS_MAX:  # what calendars have no name for
        return f"@{timestamp_ms}"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
