"""The simulation itself: fresh seeds for every change, one seed one run, and planted bugs that must be found."""

import os
import subprocess
import sys

import pytest
from fresh_seeds import fresh_seed

from barnabas.simulation.run import Options, run_seed

SECONDS = 8  # short ones: many seeds find more than long runs
OPTIONS = Options(nodes=3, seconds=SECONDS)
SEED = 2026


@pytest.mark.parametrize(("nodes", "number"), [*((3, n) for n in range(20)), *((1, n) for n in range(4))])
def test_a_fresh_seed(nodes: int, number: int) -> None:
    """What fails here is printed with the command that repeats it."""
    seed = fresh_seed(f"{nodes} nodes {number}")
    result = run_seed(seed, Options(nodes=nodes, seconds=SECONDS))
    assert result.failure is None, (
        f"{result.failure.kind}: {result.failure.message}\n{result.failure.details}\n"
        f"again: barnabas simulate --seed {seed} --nodes {nodes} --seconds {SECONDS:g}"
    )
    assert result.events["ProduceAsked"] > 0
    assert result.events["Fetched"] > 0
    assert result.virtual_seconds > SECONDS


def test_a_watermark_that_waits_for_the_sync_of_what_was_recovered() -> None:
    """1661900522: with one node and a slow disk, the checker took it for one that had fallen."""
    assert run_seed(1661900522, Options(nodes=1, seconds=SECONDS)).failure is None


def test_one_seed_is_one_run_under_any_hash_seed() -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", "simulate", "--seed", str(SEED), "--seconds", str(SECONDS)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines()[0])
    assert "digest" in outputs[0]
    assert outputs[0] == outputs[1]
    assert run_seed(SEED, OPTIONS).digest in outputs[0]  # and in a process that has done other things before


def test_another_seed_is_another_run() -> None:
    assert run_seed(1, Options(seconds=1)).digest != run_seed(2, Options(seconds=1)).digest
