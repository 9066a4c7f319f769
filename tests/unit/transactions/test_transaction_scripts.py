"""Golden dialogues with one shard of transactions: `tests/scripts/transactions`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS / "support"))

from golden_script import run_script  # noqa: E402
from transaction_script import TransactionScript  # noqa: E402

SCRIPTS = sorted((TESTS / "scripts" / "transactions").glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_dialogue_is_as_written_down(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert run_script(text, TransactionScript()) == text, (
        "review the difference: tests/support/transaction_script.py --rewrite"
    )


def test_there_are_scripts() -> None:
    assert any(script.stem == "late_requests_of_the_transaction_before" for script in SCRIPTS)
