"""The generated pages are those of the code."""

from __future__ import annotations

from types import ModuleType

import pytest

from barnabas.cli.main import COMMANDS
from tools import api_reference, cli_reference, client_reference, configuration_reference
from tools.tidy.source import REPOSITORY

REFERENCES = [api_reference, cli_reference, client_reference, configuration_reference]


def name(reference: ModuleType) -> str:
    return reference.__name__.rpartition(".")[2]


@pytest.mark.parametrize("reference", REFERENCES, ids=name)
def test_the_page_is_current(reference: ModuleType) -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run: make generate"


@pytest.mark.parametrize("reference", REFERENCES, ids=name)
def test_every_row_has_as_many_cells_as_its_title(reference: ModuleType) -> None:
    cells: int | None = None
    for line in reference.page().splitlines():
        if not line.startswith("|"):
            cells = None
            continue
        found = line.replace("\\|", "").count("|")
        assert cells in (None, found), line
        cells = found


def test_make_writes_them_all() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert all(f"-m {reference.__name__}\n" in makefile for reference in REFERENCES)


def test_every_command_is_there_with_an_example() -> None:
    text = cli_reference.page()
    for command in COMMANDS:
        assert f"`barnabas {command}" in text
        assert f"\nbarnabas {command}" in text
