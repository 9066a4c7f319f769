"""Every setting against what Apache Kafka 4.3.1 itself says of it; the table was printed from its own classes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.config import inapplicable
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import Config, Setting, Update
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import ConfigError

DIFFERENT_DEFAULTS = {
    "node.id": "a node must be able to start from nothing",
    "process.roles": "a node must be able to start from nothing",
    "controller.listener.names": "a single node needs no controller listener",
    "log.dir": "two programs must not share a default directory",
}
NOT_IN_KAFKA = ("record.validation", "log.record.validation")  # Kafka looks at every record
RUN_TIME_ONLY = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")  # not in Kafka's table
DIFFERENT_UPDATES = {
    "listeners": "a broker binds its listeners once",
    "listener.security.protocol.map": "a broker binds its listeners once",
}


class Fact(NamedTuple):
    scope: str
    name: str
    type: str
    default: str
    allowed: str
    update: str


def facts() -> list[Fact]:
    table = Path(__file__).with_name("kafka_settings.tsv").read_text(encoding="utf-8")
    return [Fact(*line.split("\t")) for line in table.splitlines() if not line.startswith("#")]


FACTS = {(fact.scope, fact.name): fact for fact in facts()}
OURS = [
    (scope, setting)
    for scope, config in (("topic", TopicConfig), ("broker", BrokerConfig))
    for setting in config.SETTINGS.values()
    if setting.name not in (*RUN_TIME_ONLY, *NOT_IN_KAFKA)
]
NUMBERS = [
    (scope, setting)
    for scope, setting in OURS
    if setting.type.name in ("INT", "LONG", "DOUBLE") and FACTS[scope, setting.name].allowed.startswith("[")
]
CHOICES = [
    (scope, setting)
    for scope, setting in OURS
    if setting.type.name in ("STRING", "LIST")
    and FACTS[scope, setting.name].allowed.startswith("[")
    and ":" not in FACTS[scope, setting.name].allowed
]


def named(value: object) -> str:
    return value.name if isinstance(value, Setting) else str(value)


def test_the_table_is_whole() -> None:
    assert sum(scope == "topic" for scope, _ in FACTS) == 34
    assert sum(scope == "broker" for scope, _ in FACTS) == 360


@pytest.mark.parametrize(("scope", "setting"), OURS, ids=named)
def test_type_and_default(scope: str, setting: Setting) -> None:
    fact = FACTS[scope, setting.name]
    assert setting.type.name == fact.type
    if setting.name not in DIFFERENT_DEFAULTS:
        assert (setting.encode(setting.default) if setting.default is not None else "-") == fact.default


@pytest.mark.parametrize(("scope", "setting"), OURS, ids=named)
def test_what_may_change_at_run_time(scope: str, setting: Setting) -> None:
    fact = FACTS[scope, setting.name]
    if fact.update == "internal":
        assert setting.internal
    elif scope == "broker" and setting.name not in DIFFERENT_UPDATES:
        assert (setting.update is Update.READ_ONLY) == (fact.update == "read-only")


@pytest.mark.parametrize(("scope", "setting"), NUMBERS, ids=named)
def test_ranges(scope: str, setting: Setting) -> None:
    """Kafka writes a range as [least,...,most]: both ends are taken, what lies beyond is not."""
    allowed = FACTS[scope, setting.name].allowed
    inside, _, other = allowed.partition(" or ")
    ends = inside.strip("[]").split(",...")
    least, most = float(ends[0]), ends[1].lstrip(",")
    number = float if setting.type.name == "DOUBLE" else int
    assert setting.decode(str(number(least))) == least
    _refused(setting, str(number(least) - 1))
    if most:
        assert setting.decode(most) == number(most)
        _refused(setting, str(number(most) + 1))
    if other:
        assert setting.decode(other) == int(other)


@pytest.mark.parametrize(("scope", "setting"), CHOICES, ids=named)
def test_names_to_choose_from(scope: str, setting: Setting) -> None:
    allowed = FACTS[scope, setting.name].allowed
    for name in allowed.strip("[]").split(", "):
        assert setting.encode(setting.decode(name)) == name
        _refused(setting, name.swapcase())


def _refused(setting: Setting, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{setting.name}: "):
        setting.decode(text)


def test_no_setting_of_topics_is_missing() -> None:
    assert set(TopicConfig.SETTINGS) - set(NOT_IN_KAFKA) == {name for scope, name in FACTS if scope == "topic"}


def test_every_setting_of_brokers_is_either_honoured_or_known_to_have_no_effect() -> None:
    kafka = {name for scope, name in FACTS if scope == "broker"} - {"broker.id"}  # the older name of node.id
    assert kafka <= set(BrokerConfig.SETTINGS) | set(inapplicable.REASONS)


def test_nothing_is_both_honoured_and_without_effect() -> None:
    assert not set(BrokerConfig.SETTINGS) & set(inapplicable.REASONS)


@pytest.mark.parametrize("config", [TopicConfig, BrokerConfig])
def test_help_is_one_sentence(config: type[Config]) -> None:
    for setting in config.SETTINGS.values():
        assert setting.help.endswith("."), setting.name
        assert 20 <= len(setting.help) <= 130, setting.name
