"""A skipped test is counted by its reason, and an unlisted reason fails a strict run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JARS_NEEDED = "tests/unit/protocol/test_definitions_against_kafka.py"


@pytest.mark.parametrize(
    ("environment", "status", "said"),
    [
        ({"PATH": "/nonexistent"}, 0, "Java is not installed"),
        (
            {"ANCHOR": "/nonexistent", "PATH": "{programs}"},
            1,
            "kafka-jars fetches them (not in tests/skips.allow)",
        ),
    ],
)
def test_an_unlisted_reason_fails_a_strict_run(
    tmp_path: Path, environment: dict[str, str], status: int, said: str
) -> None:
    for program in ("java", "mvn"):
        (tmp_path / program).symlink_to("/bin/true")
    given = {name: value.format(programs=tmp_path) for name, value in environment.items()}
    command = [sys.executable, "-m", "pytest", "-n", "0", "--strict-skips", "-p", "no:cacheprovider", JARS_NEEDED]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True)
    assert said in done.stdout
    assert done.returncode == status
