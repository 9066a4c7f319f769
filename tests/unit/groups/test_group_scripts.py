"""The golden dialogues of groups: what each command brings about is written below it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TESTS / "support"))

from golden_script import run_script  # noqa: E402
from group_script import GroupScript  # noqa: E402

from barnabas.groups.classic import ClassicGroup  # noqa: E402

SCRIPTS = sorted((TESTS / "scripts" / "groups").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_script(text, GroupScript()) == text, (
        "run tests/support/group_script.py --rewrite, and review the difference"
    )


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 10


def test_ids_that_were_given_out_do_not_pile_up() -> None:
    script = GroupScript()
    for number in range(50):
        script.run(f"join c{number} session=6000")
    group = script.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert len(group.members.expected) == 50
    script.run("wait 6000")
    assert not group.members.expected
    deadline_ms = script.shard.next_deadline_ms()
    assert deadline_ms is None or deadline_ms > script.now.monotonic_ms + 60_000, "only the expiry of offsets is left"
