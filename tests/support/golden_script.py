"""Golden dialogues: a text of commands, each followed by what it gave, indented.

    python tests/support/raft_script.py [--rewrite] SCRIPT…     shows what the commands give now, or writes it down

Lines that begin with `#` are for the reader. What a command means is up to the script that plays it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

INDENT = "    "


class Script(Protocol):
    def run(self, line: str) -> list[str]:
        """Carries out one command, and gives what it led to."""


def run_script(text: str, script: Script) -> str:
    """The script with what its commands give now in the place of what they gave before."""
    lines = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += [INDENT + each for each in script.run(line)]
    return "\n".join(lines) + "\n"


def main(new_script: Callable[[], Script]) -> None:
    """The scripts named on the command line, each played from the beginning."""
    for name in sys.argv[1:]:
        if name != "--rewrite":
            result = run_script(Path(name).read_text(encoding="utf-8"), new_script())
            if "--rewrite" in sys.argv:
                Path(name).write_text(result, encoding="utf-8")
            else:
                print(result)
