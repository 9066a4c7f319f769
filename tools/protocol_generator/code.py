"""Lines of Python under construction, with runs of fixed-width fields gathered into one struct call.

Always holds: `structs` names every `struct.Struct` that the lines use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.protocol_generator.grammar import FIXED_SIZES

INT32_COUNT_READY = "INT32_COUNT_READY"  # a constant of primitives


class Code:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.pending: list[tuple[str, str]] = []  # (format, target or value) of the run that is not yet written

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def take_pending(self) -> tuple[str, list[str], int]:
        """The run's format, its targets or values (padding has none) and its size in bytes; the run is then empty."""
        run, self.pending = self.pending, []
        return (
            "".join(code for code, _ in run),
            [text for code, text in run if code != "x"],
            sum(FIXED_SIZES[code] for code, _ in run),
        )


def struct_name(kind: str, format_text: str) -> str:
    """Formats become parts of names: `?` cannot be one."""
    return f"_{kind}_{format_text.replace('?', 'o')}"
