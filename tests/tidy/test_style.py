"""Functions fit on a screen, files on a few; every module says what it owns; nothing is left for later."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tools.tidy import style
from tools.tidy.source import REPOSITORY, SOURCE, Module, module, modules_under

BESIDE = ("tools", "benchmarks", "examples", "fuzz", "compat", "tests")


def ours() -> list[Module]:
    return modules_under(SOURCE, SOURCE)


def beside() -> list[Module]:
    return [each for directory in BESIDE for each in modules_under(REPOSITORY / directory, REPOSITORY)]


@pytest.mark.parametrize(
    "check", [style.long_functions, style.long_files, style.markers, style.swallowed_errors], ids=lambda it: it.__name__
)
def test_everything_obeys(check: Callable[[Iterable[Module]], list[str]]) -> None:
    assert check([*ours(), *beside()]) == []


def test_every_module_of_the_source_opens_with_what_it_owns() -> None:
    assert style.missing_headers([*ours(), *modules_under(REPOSITORY / "tools", REPOSITORY)]) == []


# Each check finds what it is for


def found(check: Callable[[Iterable[Module]], list[str]], text: str, name: str = "barnabas.log.x") -> list[str]:
    return check([module(name, text)])


def function(lines: int, keyword: str = "def") -> str:
    return f"{keyword} f():\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_long_functions_are_found(keyword: str) -> None:
    assert found(style.long_functions, function(60, keyword)) == []
    assert found(style.long_functions, function(61, keyword)) == ["barnabas/log/x.py:1: f has 61 lines; at most 60"]
    method = "class C:\n" + "\n".join(f"    {line}" for line in function(61, keyword).splitlines())
    assert len(found(style.long_functions, method)) == 1


def test_long_files_are_found_but_for_generated_ones() -> None:
    assert found(style.long_files, "x = 1\n" * 600) == []
    assert len(found(style.long_files, "x = 1\n" * 601)) == 1
    assert found(style.long_files, "x = 1\n" * 601, "barnabas.protocol.messages.fetch") == []


def test_missing_headers_are_found() -> None:
    assert found(style.missing_headers, '"""Owns."""\n') == []
    for text in ("", "x = 1", '""', "# only a comment\n", '"""   """', '"""' + "Line.\n" * 16 + '"""'):
        assert len(found(style.missing_headers, text)) == 1


def test_markers_are_found() -> None:
    for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX"):
        assert len(found(style.markers, f"x = 1  # {word}: later")) == 1
    assert found(style.markers, "x = 1  # nothing to do") == []


@pytest.mark.parametrize(
    "handler", ["except:\n    pass", "except Exception:\n    ...", "except BaseException:\n    'nothing'"]
)
def test_swallowed_errors_are_found(handler: str) -> None:
    assert len(found(style.swallowed_errors, f"try:\n    x = 1\n{handler}\n")) == 1


@pytest.mark.parametrize("handler", ["except KeyError:\n    pass", "except Exception:\n    raise"])
def test_errors_that_are_meant_are_not_complained_about(handler: str) -> None:
    assert found(style.swallowed_errors, f"try:\n    x = 1\n{handler}\n") == []
