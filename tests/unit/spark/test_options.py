"""Options are checked once, by name, type and range."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from barnabas.config.validation import ConfigError
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.schema import columns


def options(**given: str) -> Options:
    return Options(given, READ_OPTIONS)


def test_defaults_and_given_values() -> None:
    found = options(subscribe="a, b", maxoffsetspertrigger="10", failOnDataLoss="false")
    assert found["subscribe"] == ("a", "b")
    assert found["maxOffsetsPerTrigger"] == 10
    assert found["failOnDataLoss"] is False
    assert found["minPartitions"] is None
    assert found.given == {"subscribe", "maxOffsetsPerTrigger", "failOnDataLoss"}


def test_client_settings_are_kept_apart() -> None:
    assert Options({"kafka.bootstrap.servers": "h:1"}, READ_OPTIONS).kafka == {"bootstrap.servers": "h:1"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscribtion", "subscribe"),
        ("startingoffset", "startingOffsets"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not an option.*did you mean {nearest}"):
        Options({name: "x"}, READ_OPTIONS)


def test_options_of_the_other_connector_are_told_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"groupIdPrefix has no meaning here: .*groupId"):
        options(groupIdPrefix="x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("failOnDataLoss", "maybe"),
        ("startingOffsets", "first"),
        ("startingOffsets", '{"t": 5}'),
        ("startingOffsets", '{"t": {"0": "5"}}'),
        ("startingOffsets", '{"t": {"zero": 5}}'),
        ("endingOffsets", "earliest"),
        ("assign", "t-0"),
        ("assign", '{"t": "0"}'),
        ("maxTriggerDelay", "soon"),
        ("valueFormat", "xml"),
    ],
)
def test_a_wrong_value_is_told_by_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        options(**{name: text})


def test_values_that_are_more_than_words() -> None:
    assert options(startingOffsets='{"t": {"0": 17, "1": -2}}')["startingOffsets"] == {"t": {0: 17, 1: -2}}
    assert options(startingOffsets="Earliest")["startingOffsets"] == "earliest"
    assert options(assign='{"t": [2, 0, 2]}')["assign"] == {"t": (0, 2)}
    assert options(maxTriggerDelay="15m")["maxTriggerDelay"] == 900_000
    assert options(maxTriggerDelay="250")["maxTriggerDelay"] == 250


def test_options_travel() -> None:
    found = pickle.loads(pickle.dumps(options(subscribe="a")))
    assert found["subscribe"] == ("a",)


def test_columns() -> None:
    assert "headers" not in columns(options())
    assert columns(options(includeHeaders="true"))[-1] == "headers"
    assert columns(options(columns="OFFSET,timestamptype")) == ("offset", "timestampType")
    for wrong in ({"columns": "values"}, {"columns": "key,key"}, {"columns": "key", "includeHeaders": "true"}):
        with pytest.raises(ConfigError):
            columns(options(**wrong))


def test_every_option_stands_on_the_page() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "spark-reading.md").read_text(encoding="utf-8")
    assert [setting.name for setting in READ_OPTIONS if f"`{setting.name}`" not in page] == []
