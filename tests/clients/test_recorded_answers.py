"""Answers of Apache Kafka 4.3.1, recorded by `compat/answers/run --record`, expected of Barnabas."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import pytest

ANSWERS = Path(__file__).resolve().parent.parent.parent / "compat" / "answers"
sys.path.insert(0, str(ANSWERS))

from answer_cases import CASES, played  # noqa: E402

RECORDED = sorted(path.stem for path in (ANSWERS / "recorded").glob("*.txt"))


@pytest.mark.parametrize("name", RECORDED)
def test_answers_are_those_of_kafka(name: str, served: str) -> None:
    recorded = (ANSWERS / "recorded" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert played(name, served, secrets.token_hex(4)) == recorded


def test_every_case_is_recorded() -> None:
    assert sorted(CASES) == RECORDED
