"""The pytest plugin: fixtures `kafka` and `kafka_session`, the marker `kafka`, the option `kafka_scope`.

Always holds: it costs a suite that does not use it nothing but this small module: brokers are imported by the first
test that asks for one.
Does not know: brokers, but for the name of `Kafka`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.testing.kafka import Kafka

SCOPES = ("function", "session")
OPTIONS = ("brokers", "subprocess", "port", "config")  # of the marker, as `Kafka` has them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kafka_scope",
        "where the fixture `kafka` comes from: function (brokers of its own for each test, the default), or session "
        "(one for the run, healed after each test and rid of its topics)",
        default="function",
    )
    parser.addini("kafka_brokers", "how many brokers the fixtures start (default: 1)", default="1")
    parser.addini("kafka_subprocess", "whether brokers live in a process of their own", type="bool", default=False)
    parser.addini("kafka_config", "settings of brokers, one name=value a line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"kafka({', '.join(f'{name}=' for name in OPTIONS)}): brokers of its own for one test"
    )
    _spare_the_brokers(config)


def _spare_the_brokers(config: pytest.Config) -> None:
    """Pytest rewrites the assertions of every package that brings a plugin. Those of a broker are not a test's, and to
    rewrite them takes longer than to start one."""
    hook = config.pluginmanager.rewrite_hook
    marked: set[str] | None = getattr(hook, "_must_rewrite", None)
    if marked is not None:
        marked.discard("barnabas")
        getattr(hook, "_marked_for_rewrite_cache", {}).clear()


@pytest.fixture(scope="session")
def kafka_session(pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """Brokers for the whole run: for fixtures of a wider scope than one test."""
    with _started(pytestconfig, {}) as started:
        yield started


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Brokers in memory, fresh for each test, or shared and healed where `kafka_scope` is session.

    `@pytest.mark.kafka(brokers=3, config={...})` gives a test brokers of its own in any case.
    """
    scope = request.config.getini("kafka_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"kafka_scope is {scope!r}; it must be one of {', '.join(SCOPES)}")
    marker = request.node.get_closest_marker("kafka")
    if marker is None and scope == "session":
        yield from _shared(request.getfixturevalue("kafka_session"))
        return
    with _started(request.config, _options(marker)) as started:
        yield started


def _shared(shared: Kafka) -> Iterator[Kafka]:
    before = set(shared.topics())
    yield shared
    shared.heal()
    shared.close_clients()
    made = [topic for topic in shared.topics() if topic not in before]
    if made:
        shared.delete_topic(*made)


def _options(marker: pytest.Mark | None) -> dict[str, Any]:
    if marker is None:
        return {}
    unknown = [name for name in marker.kwargs if name not in OPTIONS]
    if marker.args or unknown:
        what = f"has no {', '.join(unknown)}" if unknown else "takes names with values"
        raise pytest.UsageError(f"the marker kafka {what}: there are {', '.join(OPTIONS)}")
    return dict(marker.kwargs)


def _started(config: pytest.Config, options: dict[str, Any]) -> Kafka:
    from barnabas.testing.kafka import Kafka

    settings: dict[str, object] = {}
    for line in config.getini("kafka_config"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"kafka_config: {line!r} must have the form name=value")
        settings[name.strip()] = value.strip()
    chosen: dict[str, Any] = {
        "brokers": _count(config.getini("kafka_brokers")),
        "subprocess": config.getini("kafka_subprocess"),
    }
    return Kafka(**{**chosen, **options, "config": {**settings, **options.get("config", {})}})


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"kafka_brokers is {text!r}; it must be a number from 1 on")
    return int(text)
