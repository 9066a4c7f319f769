"""What the generated pages of documentation share."""

from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
GENERATED = "*Written by `make generate` from the code; a test says that it is current.*"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [*lines, ""]
