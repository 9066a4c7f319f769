"""The cluster of `testing.cluster` in a child process, with the same methods.

Always holds: calls go one at a time. The child ends when its input does, however this process ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import barnabas
from barnabas.testing.pipe import receive, send

STOP_SECONDS_MAX = 30.0


class ChildEnded(Exception):
    """The process with the brokers is gone."""


class ChildCluster:
    def __init__(self, *, brokers: int, port: int, config: Mapping[str, object]) -> None:
        self._lock = threading.Lock()
        self._arguments = {"brokers": brokers, "port": port, "config": dict(config)}
        source = str(Path(barnabas.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.testing.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def start(self) -> list[tuple[str, int]]:
        try:
            return self._call("start", self._arguments)  # type: ignore[no-any-return]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            try:
                send(self._process.stdin, (name, arguments))
                answer = receive(self._process.stdout)
            except BrokenPipeError:
                answer = None
        if answer is None:
            raise ChildEnded(f"the process with the brokers has ended (status {self._process.poll()})")
        is_result, value = answer
        if is_result:
            return value
        raise value
