"""The golden dialogues of Raft: what each command brings about is written below it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS / "support"))

from golden_script import run_script  # noqa: E402
from raft_script import RaftScript  # noqa: E402

SCRIPTS = sorted((TESTS / "scripts" / "raft").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_script(text, RaftScript()) == text, (
        "run tests/support/raft_script.py --rewrite, and review the difference"
    )


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 10
