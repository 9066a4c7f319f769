"""A standalone Spark cluster as processes: a master and workers, each with its own directory.

Holds: a started cluster has all of its workers registered. Leaving the `with` block ends all of it.
Does not know: what runs on it. The package under test must be importable where the workers run: here it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType

import pyspark
from apache_kafka import free_port
from broker_process import wait_until

READY_SECONDS_MAX = 240.0  # a few seconds on an idle machine
STOP_SECONDS_MAX = 30.0
WORKER_MEMORY = "1g"


class SparkCluster:
    def __init__(self, workers: int = 2) -> None:
        from barnabas.spark.session import prepare

        self._worker_count = workers
        self._directory = tempfile.TemporaryDirectory(prefix="barnabas-spark-")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = dict(os.environ)
        prepare(self._environment)
        self._port, self._page_port = free_port(), free_port()

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> SparkCluster:
        try:
            pages = ["--webui-port", str(self._page_port)]
            self._start(
                "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self._port), *pages
            )
            wait_until(self._page, "the master answers", READY_SECONDS_MAX)
            for number in range(self._worker_count):
                place = Path(self._directory.name) / f"worker-{number}"
                limits = ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(place), "--webui-port", "0"]
                host = f"127.0.0.{number + 1}"  # Spark runs a task a second time only on another host
                self._start("org.apache.spark.deploy.worker.Worker", "--host", host, *limits, self.master)
            wait_until(self._all_registered, "the workers are registered", READY_SECONDS_MAX)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, main_class: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), main_class, *arguments]
        environment = {**self._environment, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with open(Path(self._directory.name) / f"log-{len(self._processes)}", "wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            )

    def _page(self) -> dict[str, object] | None:
        for process in self._processes:
            assert process.poll() is None, self.logs()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page_port}/json/", timeout=5) as answer:
                found = json.load(answer)
                return found if isinstance(found, dict) else None
        except (OSError, json.JSONDecodeError):
            return None  # while the master starts, it answers with a page of HTML

    def _all_registered(self) -> bool:
        page = self._page()
        return page is not None and page.get("aliveworkers") == self._worker_count

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in Path(self._directory.name).glob("log-*"))

    def _stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, 15)
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
        self._directory.cleanup()
