"""`barnabas pipeline`, as a user has it: a new file, run as a process of its own, stopped by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import wait_until
from client_libraries import confluent_kafka as ck
from committed import create_topic, values
from confluent_io import deliver

SECONDS_MAX = 300  # on a machine with nothing else to do, a thirtieth of that
BARNABAS = [sys.executable, "-m", "barnabas"]


@pytest.mark.usefixtures("java")
def test_a_new_pipeline_runs_until_it_is_told_to_stop(served: str, tmp_path: Path) -> None:
    name = f"shout-{os.getpid()}"
    for topic in (f"{name}-in", f"{name}-out"):
        create_topic(served, topic, 1)
    deliver(ck.Producer({"bootstrap.servers": served, "log_level": 0}), f"{name}-in", [{"value": "quiet"}])
    command = [*BARNABAS, "pipeline", "new", name, "--bootstrap-server", served]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
    command = [*BARNABAS, "pipeline", "run", made.stdout.strip(), "--master", "local[1]", "--json"]
    with (tmp_path / "errors").open("wb") as errors:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors)
    try:
        wait_until(
            lambda: running.poll() is not None or values(served, f"{name}-out") == ["QUIET"], "it works", SECONDS_MAX
        )
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=SECONDS_MAX)
    finally:
        running.kill()
    assert running.returncode == 0, (tmp_path / "errors").read_text()
    assert json.loads(said) == {"pipeline": name, "rows": {"copy": 1}}
    assert values(served, f"{name}-out") == ["QUIET"]
