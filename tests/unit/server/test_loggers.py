"""Levels of loggers under Kafka's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.controller.configs import Edit, Operation
from barnabas.errors import ErrorCode
from barnabas.server import loggers

NAME = "barnabas.test_of_levels"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    logger, root_level = logging.getLogger(NAME), logging.root.level
    yield
    logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root_level)


def alter(*edits: Edit, validate_only: bool = False) -> ErrorCode | None:
    refusal = loggers.alter(edits, validate_only=validate_only)
    return None if refusal is None else refusal.error


@pytest.mark.parametrize("level", ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_a_level_is_set_and_shown(level: str) -> None:
    assert alter(Edit(NAME, Operation.SET, level)) is None
    assert loggers.levels()[NAME] == level


def test_a_deleted_level_is_inherited() -> None:
    alter(Edit(NAME, Operation.SET, "ERROR"), Edit("root", Operation.SET, "DEBUG"))
    assert alter(Edit(NAME, Operation.DELETE, None)) is None
    assert loggers.levels()[NAME] == "DEBUG"


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (Edit(NAME, Operation.SET, "debug"), ErrorCode.INVALID_CONFIG),
        (Edit(NAME, Operation.SET, "OFF"), ErrorCode.INVALID_CONFIG),
        (Edit("barnabas.no_such_logger", Operation.SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (Edit(NAME, Operation.APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (Edit("root", Operation.DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_and_nothing_is_changed(edit: Edit, error: ErrorCode) -> None:
    alter(Edit(NAME, Operation.SET, "ERROR"), Edit("root", Operation.SET, "ERROR"))
    assert alter(Edit("root", Operation.SET, "DEBUG"), edit) is error
    assert loggers.levels()["root"] == "ERROR"
    assert loggers.levels()[NAME] == "ERROR"


def test_validation_changes_nothing() -> None:
    alter(Edit(NAME, Operation.SET, "ERROR"))
    assert alter(Edit(NAME, Operation.SET, "DEBUG"), validate_only=True) is None
    assert loggers.levels()[NAME] == "ERROR"


def test_levels_between_those_of_kafka() -> None:
    logging.getLogger(NAME).setLevel(35)
    assert loggers.levels()[NAME] == "WARN"
    logging.getLogger(NAME).setLevel(1)
    assert loggers.levels()[NAME] == "TRACE"
