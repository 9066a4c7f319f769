"""Errors carry Kafka's code, have a class where callers act on it, and say what to do."""

import pickle

import pytest

from barnabas.client import errors
from barnabas.client.connection import ConnectionLost, RequestTimedOut
from barnabas.client.errors import KafkaError, error_of
from barnabas.errors import ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code != ErrorCode.NONE])
def test_every_code_becomes_an_error_that_speaks(code: ErrorCode) -> None:
    error = error_of(code, about="topic t")
    assert error.code == code
    assert error.retriable == code.retriable
    assert str(error).startswith("topic t: ")
    assert code.name in str(error)


def test_classes() -> None:
    assert isinstance(error_of(ErrorCode.PRODUCER_FENCED), errors.ProducerFencedError)
    assert isinstance(error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), errors.UnknownTopicError)
    assert isinstance(error_of(ErrorCode.NOT_COORDINATOR), errors.CoordinatorError)


def test_the_words_of_the_broker_come_first() -> None:
    assert error_of(ErrorCode.INVALID_CONFIG, "no such config").message == "no such config"


def test_codes_of_the_future_are_told_as_they_are() -> None:
    error = error_of(999)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "999" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        error_of(ErrorCode.PRODUCER_FENCED, about="x"),
        errors.KafkaTimeoutError("late"),
        errors.BufferExhaustedError("full"),
        errors.ClientClosedError("closed"),
        ConnectionLost("gone"),
        RequestTimedOut("late"),
    ],
)
def test_errors_cross_processes(error: KafkaError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.code, copy.message, str(copy)) == (error.code, error.message, str(error))


def test_lost_connections_are_retriable() -> None:
    assert ConnectionLost("gone").retriable
    assert errors.KafkaTimeoutError("late").retriable
    assert not errors.ClientClosedError("closed").retriable
