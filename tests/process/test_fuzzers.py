"""The fuzzers of `fuzz/` run, and find nothing in a short run of known cases. Longer runs are made by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}


def fuzz(script: str, *arguments: str) -> str:
    command = [sys.executable, str(REPOSITORY / "fuzz" / script), *arguments, "--seed", "1", "--seconds", "60"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", ["batches.py", "messages.py"])
def test_decoders_keep_their_word(script: str) -> None:
    output = fuzz(script, "--cases", "2000")
    assert "2000 cases" in output
    assert "refused" in output
    assert "read" in output


def test_a_broker_goes_on_serving() -> None:
    with BrokerProcess() as broker:
        output = fuzz("frames.py", broker.address, "--cases", "1500")
        assert "the broker still answers" in output
        assert "answered" in output
        assert broker.is_running()
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


def test_only_this_machine_is_fuzzed() -> None:
    command = [sys.executable, str(REPOSITORY / "fuzz" / "frames.py"), "192.0.2.1:9092", "--seconds", "1"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 1
    assert "loopback" in done.stderr
