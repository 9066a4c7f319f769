"""Runs the examples of a page of documentation, in order, and compares what they say with what the page shows.

- A `console` block is typed into one shell for the whole page: each line after `$ ` is a command (`> ` continues it),
  the lines below it are what it must print, and it must succeed. `...` stands for any text within a line, and alone
  for any lines. A command that ends in `&` is done once it has printed what is shown.
- Any other block whose first line is a comment with the name of a file is written to that file.
- Blocks of kinds that nobody could run here (`sh`, `text`, `yaml`) are left alone. A `python` block must name its file.

Holds: ports that the page names are free ones when it runs, so that pages can run side by side; what is left to the
default port is sent there too. The shell and its jobs end with `close`.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from barnabas.cli.ports import Ports

COMMAND_SECONDS_MAX = 120.0  # a loaded machine may be slow
END = "--- end of command ---"
LEFT_ALONE = ("sh", "text", "yaml", "toml", "")
DEFAULT_PORT = "9092"
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?:#|//) ([\w./-]+\.\w+)$")
_PORT = re.compile(r"(?<![\d.])1?909[2-9](?!\d)")
_UP = re.compile(r"^barnabas up\b(?!.*--port)")


class Command(NamedTuple):
    line: int
    text: str
    shown: list[str]


class File(NamedTuple):
    line: int
    name: str
    text: str


def steps(page: str) -> list[Command | File]:
    found: list[Command | File] = []
    for block in _BLOCK.finditer(page):
        kind, text = block[1], block[2]
        line = page.count("\n", 0, block.start()) + 2
        if kind == "console":
            found += _commands(text, line)
            continue
        named = _FILE.match(text.partition("\n")[0])
        if named:
            found.append(File(line, named[1], text))
        else:
            assert kind in LEFT_ALONE, f"line {line}: a {kind} block that names no file is never run"
    return found


def _commands(block: str, first_line: int) -> list[Command]:
    commands: list[Command] = []
    for number, line in enumerate(block.splitlines(), start=first_line):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1].shown:
            commands[-1] = commands[-1]._replace(text=f"{commands[-1].text}\n{line[2:]}")
        else:
            assert commands, f"line {number}: output before the first command"
            commands[-1].shown.append(line)
    return commands


def matches(shown: list[str], said: list[str]) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in said)) is not None


class PageFailed(AssertionError):
    """The message has the line of the page, what it shows, and what was said instead."""


class Shell:
    """`with Shell(directory) as shell: shell.run(page)`"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = Ports("127.0.0.1")
        self._mapped: dict[str, str] = {}  # what the page calls a port, and the one that it gets
        self._errors = (directory / ".errors").open("w+")
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "80",
            "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:randomly -p no:anyio -p no:cacheprovider",  # slow to load
            "BARNABAS_BOOTSTRAP": f"127.0.0.1:{self._port(DEFAULT_PORT)}",
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )
        self._said = ""
        self._type("set -m")  # jobs, so that `kill %1` means what it means at a prompt

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._shell.poll() is None:
            self._type("kill $(jobs -p) 2>/dev/null; wait; exit")
        try:
            self._shell.wait(COMMAND_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            assert pipe is not None
            pipe.close()
        self._errors.close()
        self._ports.close()

    def run(self, page: str) -> int:
        """How many commands were run."""
        found = steps(page)
        for port in dict.fromkeys(_PORT.findall(page)):
            self._port(port)
        self._ports.settle()
        for step in found:
            if isinstance(step, File):
                path = self._directory / step.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._as_run(step.text))
            else:
                self._run(step)
        return sum(isinstance(step, Command) for step in found)

    def _run(self, command: Command) -> None:
        goes_on = command.text.rstrip().endswith("&")
        text = _UP.sub(f"barnabas up --port {DEFAULT_PORT}", command.text)
        self._type(self._as_run(text))
        if not goes_on:
            self._type(f"status=$?; echo; echo '{END}' $status")
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while not self._is_done(command, goes_on):
            if not self._read(deadline):
                raise self._failed(command, "and then nothing more")
        said, self._said = self._said, ""
        text, _end, status = self._as_shown(said).partition(f"\n{END} ")
        if not matches(command.shown, text.splitlines()) or status not in ("", "0\n"):
            raise self._failed(command, f"{text}\n--- exit status {status}")

    def _is_done(self, command: Command, goes_on: bool) -> bool:
        if self._said and not self._said.endswith("\n"):
            return False
        return matches(command.shown, self._as_shown(self._said).splitlines()) if goes_on else f"\n{END} " in self._said

    def _failed(self, command: Command, said: str) -> PageFailed:
        self._errors.flush()
        errors = (self._directory / ".errors").read_text()[-4000:]
        shown = "\n".join(command.shown)
        return PageFailed(
            f"line {command.line}: $ {command.text}\n--- shown\n{shown}\n--- said\n{said}\n--- errors\n{errors}"
        )

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n".encode())
        self._shell.stdin.flush()

    def _read(self, deadline: float) -> bool:
        assert self._shell.stdout is not None
        readable, _, _ = select.select([self._shell.stdout], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(self._shell.stdout.fileno(), 65536) if readable else b""
        self._said += data.decode()
        return bool(data)

    def _port(self, shown: str) -> str:
        if shown not in self._mapped:
            self._mapped[shown] = str(self._ports.take(0))
        return self._mapped[shown]

    def _as_run(self, text: str) -> str:
        return _PORT.sub(lambda found: self._mapped[found[0]], text)

    def _as_shown(self, text: str) -> str:
        for shown, used in self._mapped.items():
            text = re.sub(rf"(?<!\d){used}(?!\d)", shown, text)
        return text
