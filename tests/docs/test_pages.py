"""The examples in the documentation do what the pages say; and the helper that checks it can tell."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from page import Command, File, PageFailed, Shell, matches, steps

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "```console" in path.read_text(encoding="utf-8"))

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the examples are typed into bash")


@needs_bash
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_do_what_the_page_says(page: Path, tmp_path: Path):
    with Shell(tmp_path) as shell:
        assert shell.run(page.read_text(encoding="utf-8")) > 0


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_no_link_leads_nowhere():
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    broken = [
        f"{page.relative_to(DOCS.parent)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


# The helper


def test_a_page_is_cut_into_its_steps():
    page = "# Title\n```sh\nnot run\n```\ntext\n```python\n# a/b.py\nx = 1\n```\n"
    page += "```console\n$ one \\\n> two\nout\n$ three\n```\n"
    assert steps(page) == [
        File(7, "a/b.py", "# a/b.py\nx = 1\n"),
        Command(11, "one \\\ntwo", ["out"]),
        Command(14, "three", []),
    ]


@pytest.mark.parametrize("page", ["```python\nx = 1\n```\n", "```console\nout\n```\n"])
def test_what_would_never_run_is_found(page: str):
    with pytest.raises(AssertionError):
        steps(page)


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ([], [], True),
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a ... c"], ["a b c"], True),
        (["a ... c"], ["a b d"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["c"], True),
        (["a.c"], ["abc"], False),
        (["a"], ["a  "], True),
    ],
)
def test_shown_and_said_are_compared(shown: list[str], said: list[str], same: bool):
    assert matches(shown, said) is same


@needs_bash
def test_a_page_runs_in_one_shell(tmp_path: Path):
    page = """
```properties
# greeting.txt
hello at 9092
```
```console
$ cd . && name=you
$ echo hello $name; cat greeting.txt
hello you
# greeting.txt
hello at 9092
$ (echo ready; sleep 60) &
ready
$ kill %1
```
"""
    with Shell(tmp_path) as shell:
        assert shell.run(page) == 4
    assert "9092" not in (tmp_path / "greeting.txt").read_text()


@needs_bash
@pytest.mark.parametrize("command", ["echo other", "true", "echo shown; echo more", "echo shown; false"])
def test_a_page_that_shows_something_else_fails(tmp_path: Path, command: str):
    with Shell(tmp_path) as shell, pytest.raises(PageFailed, match="line 3"):
        shell.run(f"\n```console\n$ {command}\nshown\n```\n")
