"""The golden dialogues of leaders and followers: what each command brings about is written below it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS / "support"))

from golden_script import run_script  # noqa: E402
from replication_script import ReplicationScript  # noqa: E402

SCRIPTS = sorted((TESTS / "scripts" / "replication").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_script(text, ReplicationScript()) == text, (
        "run tests/support/replication_script.py --rewrite, and review the difference"
    )


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 8
