"""What commands say, how they end, and how addresses are written.

Imports next to nothing: a supervisor needs no broker in its memory, and `--help` answers at once.
"""

import sys
from collections.abc import Sequence
from enum import IntEnum

WILDCARDS = ("", "0.0.0.0", "::")  # every address of this machine: fit to listen on, not to dial


class Exit(IntEnum):
    """What each exit code of `barnabas` means; docs/cli.md is written from here."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "Exit":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    DONE = (0, "done")
    FAILED = (1, "failed, in whole or in part, or something wrong was found; the message says what")
    USAGE = (2, "wrong usage: an unknown command, option or value")
    UNREACHABLE = (3, "no broker could be reached, or none answered in time")
    NOT_FOUND = (4, "what was named does not exist: a topic, a group, a transaction, a file")
    INTERRUPTED = (130, "ended by Ctrl-C")
    BROKEN_PIPE = (141, "whoever read the output has stopped reading, as `| head` does")


class CommandFailed(Exception):
    """A command cannot do what it was asked; the message is one line that says what to do."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def failed(message: str, code: Exit = Exit.FAILED) -> int:
    """Says why on standard error; the exit code."""
    print(f"barnabas: {message}", file=sys.stderr, flush=True)
    return int(code)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def suggestion(name: str, known: Sequence[str]) -> str:
    """« (did you mean X?)» or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def counted(number: int, what: str) -> str:
    """«1 partition», «3 partitions»."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
