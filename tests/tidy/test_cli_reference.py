"""The page of commands is that of the code."""

from __future__ import annotations

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from barnabas.cli.main import COMMANDS
from tools.cli_reference import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make generate"


def test_every_command_is_there_with_an_example() -> None:
    text = page()
    for name in COMMANDS:
        assert f"`barnabas {name}" in text
        assert f"\nbarnabas {name}" in text or f"| barnabas {name}" in text


def test_every_row_has_as_many_cells_as_its_title() -> None:
    cells: int | None = None
    for line in page().splitlines():
        if not line.startswith("|"):
            cells = None
            continue
        found = line.replace("\\|", "").count("|")
        assert cells in (None, found), line
        cells = found
