"""A broker as a process of its own, for tests, compatibility suites and benchmarks.

Holds: a started process has printed its ready line, and its address is the one it printed. Leaving the `with` block
ends the process whatever happened inside.
Does not know: what kind of broker it starts beyond its command line; it never imports the broker's code.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parent.parent.parent
READY_SECONDS_MAX = 120.0  # a loaded machine may be slow; an idle one needs a third of a second
STOP_SECONDS_MAX = 120.0
WAIT_SECONDS_MAX = 60.0
_scratch = tempfile.TemporaryDirectory(prefix="barnabas-brokers-")  # removed when this process ends
_numbers = itertools.count(1)


class BrokerFailed(Exception):
    """The process ended, or stayed silent, where its ready line was expected."""


class BrokerProcess:
    """`barnabas up` in a child process. Use it as a context manager, or call start and stop."""

    def __init__(
        self,
        *,
        data: Path | None = None,
        port: int = 0,
        config: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.data = data  # None: everything in memory
        self.port = port  # after start: the port it serves
        self.config = dict(config or {})
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.prepare = prepare  # runs in the child before the broker, e.g. to set a limit
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_line = ""
        self.ready_seconds = 0.0  # from the start of the process to its ready line
        self._errors = Path(_scratch.name) / f"stderr-{next(_numbers)}"  # all of its lives, one after the other

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """Of all processes that serve."""
        return [self.pid]

    @property
    def node_directory(self) -> Path:
        assert self.data is not None
        return self.data / "node-1"

    def command(self) -> list[str]:
        where = ["--memory"] if self.data is None else ["--data", str(self.data)]
        settings = [text for name, value in self.config.items() for text in ("--config", f"{name}={value}")]
        return [sys.executable, "-m", "barnabas", "up", *where, "--port", str(self.port), *settings, *self.arguments]

    def start(self) -> BrokerProcess:
        assert self.process is None, "already started"
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), **self.environment}
        began = time.monotonic()
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                preexec_fn=self.prepare,
            )
        self.ready_line = self._read_ready_line(began + READY_SECONDS_MAX)
        self.ready_seconds = time.monotonic() - began
        self.port = int(self.ready_line.rpartition(":")[2])
        return self

    def stop(self) -> int:
        """SIGTERM, then wait. The exit status; 0 where nothing was running."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to write anything more."""
        assert self.process is not None
        self.process.kill()
        self._wait()

    def restart(self) -> BrokerProcess:
        """A clean stop and a new process on the same port and directory."""
        status = self.stop()
        assert status == 0, f"exit status {status}\n{self.errors()}"
        return self.start()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def errors(self) -> str:
        """What the process wrote to its standard error so far."""
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""

    def resident_bytes(self) -> int:
        return sum(resident_bytes(pid) for pid in self.pids)

    def __enter__(self) -> BrokerProcess:
        return self if self.is_running() else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"\n--- broker {self.address}, standard error ---\n{self.errors()[-8000:]}\n")
        self.stop()

    def _wait(self) -> int:
        assert self.process is not None
        try:
            status = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise BrokerFailed(f"still running {STOP_SECONDS_MAX:.0f} s after SIGTERM\n{self.errors()}") from None
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None
        return status

    def _read_ready_line(self, deadline: float) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        text = b""
        while b"\n" not in text:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 4096) if readable else b""
            if not chunk:
                self.process.kill()
                status = self._wait()
                raise BrokerFailed(f"no ready line (exit status {status}), printed {text!r}\n{self.errors()}")
            text += chunk
        line = text.decode().splitlines()[0]
        if not line.startswith("ready "):
            self.process.kill()
            self._wait()
            raise BrokerFailed(f"expected a ready line, got {line!r}\n{self.errors()}")
        return line


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, from /proc."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def peak_bytes(pid: int) -> int:
    """The most memory that was ever resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def wait_until(condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS_MAX) -> T:
    """Calls until the answer is true; fails with `what` after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.005)
