"""What is done once for a process that runs many tasks; each time in a new process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

ROUNDS = 10
PAGES = 3 * (8 << 20) // 4096
TASKS = f"""
import resource
from barnabas.spark.workers import settle

settle()
def task():
    parts = [b"x" * (8 << 20) for _ in range(3)]
task()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    task()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
FROZEN = "import gc; from barnabas.spark.workers import settle; settle(); print(gc.get_freeze_count())"


def printed(program: str) -> int:
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(
    os.name != "posix" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can be told to keep memory"
)
def test_a_task_finds_the_memory_of_the_one_before() -> None:
    assert printed(TASKS) < PAGES


def test_what_is_loaded_is_not_collected_again() -> None:
    assert printed(FROZEN) > 1_000
