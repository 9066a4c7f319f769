"""The levels of this process's loggers, under the names that Kafka's tools use for them.

A level that is set lasts until the process ends: it is no metadata. `root` is the root logger, which cannot be
without a level.
"""

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.controller.configs import Edit, Operation
from barnabas.controller.decision import Refusal
from barnabas.errors import ErrorCode

ROOT: Final = "root"
# Python has no TRACE; what a handler shows at DEBUG it shows at TRACE as well.
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}


def levels() -> dict[str, str]:
    """Every logger that is in use, by name, with the level that counts for it."""
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in _names()}


def alter(edits: Sequence[Edit], *, validate_only: bool) -> Refusal | None:
    """Sets all of these or none."""
    known = _names()
    for edit in edits:
        if edit.operation not in (Operation.SET, Operation.DELETE):
            return Refusal(ErrorCode.INVALID_REQUEST, "A logger's level is no list.")
        if edit.name not in known:
            return Refusal(ErrorCode.INVALID_CONFIG, f"There is no logger {edit.name!r}.")
        if edit.operation == Operation.SET and edit.value not in LEVELS:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{edit.value!r} is no level; the levels are {', '.join(LEVELS)}.")
        if edit.operation == Operation.DELETE and edit.name == ROOT:
            return Refusal(ErrorCode.INVALID_REQUEST, "The root logger must have a level.")
    if not validate_only:
        for edit in edits:
            level = logging.NOTSET if edit.operation == Operation.DELETE else LEVELS[edit.value or ""]
            _logger(edit.name).setLevel(level)
    return None


def _names() -> list[str]:
    loggers = logging.root.manager.loggerDict.items()
    return [ROOT, *sorted(name for name, logger in loggers if isinstance(logger, logging.Logger))]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    """The nearest level of Kafka that shows no less."""
    return next((name for name, number in LEVELS.items() if number <= level), "TRACE")
