"""The repository names no machine and no registry, its changelog is kept, and no setting is accepted and ignored."""

from __future__ import annotations

import tomllib

import pytest

from barnabas.client.settings import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from barnabas.config.broker import BrokerConfig
from barnabas.config.group import GroupConfig
from barnabas.config.topic import TopicConfig
from tools.tidy import repository
from tools.tidy.source import REPOSITORY, SOURCE, module, modules_under

GROUP_RANGES = ("assignment.interval", "heartbeat.interval", "session.timeout")  # bound what single groups may set
# Read within config/ itself, where they are checked against each other or folded into another attribute.
READ_BY_THE_CONFIG = {
    "process.roles",
    "listener.security.protocol.map",
    "controller.listener.names",
    "inter.broker.listener.name",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "log.dir",
    "log.dirs",
    *(f"group.consumer.{end}.{kind}.ms" for end in ("min", "max") for kind in GROUP_RANGES),
}
FOLDED_BY_THE_CLIENTS_CONFIG = {
    *("enable.idempotence", "auto.offset.reset"),  # into properties, with what they depend on
    *("ssl.truststore.type", "ssl.keystore.type"),  # only one value of each is accepted
}
# Kept and shown as Kafka does, for the part that will obey them or because tools expect them.
STORED = {
    "unclean.leader.election.enable": "replication",
    "local.retention.bytes": "tiered storage, as in a Kafka that has none",
    "local.retention.ms": "tiered storage, as in a Kafka that has none",
    "remote.log.copy.disable": "tiered storage, as in a Kafka that has none",
    "remote.log.delete.on.disable": "tiered storage, as in a Kafka that has none",
    "remote.storage.enable": "tiered storage, as in a Kafka that has none",
    "preallocate": "its help says so",
    "internal.segment.bytes": "becomes segment_bytes",
    **{
        name: "groups that do not exist here, as in a Kafka that has none of them"
        for name in GroupConfig.SETTINGS
        if name.startswith(("share.", "streams."))
    },
}


def test_no_trace_of_one_machine() -> None:
    files = repository.tracked_files(REPOSITORY)
    if files is None:
        pytest.skip("not a working copy of git")
    complaints: list[str] = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # bytes recorded from a broker
        complaints += repository.machine_traces(str(path.relative_to(REPOSITORY)), text)
    assert complaints == []


def test_the_changelog_is_kept() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert repository.changelog_faults(changelog, version) == []


def unread() -> list[str]:
    everything = modules_under(SOURCE / "barnabas", SOURCE)
    modules = [each for each in everything if not each.name.startswith("barnabas.config") and not each.is_generated]
    settings = {**TopicConfig.SETTINGS, **GroupConfig.SETTINGS}
    inherited = {synonym.name for setting in settings.values() for synonym in setting.synonyms}
    attributes = {name: setting.attribute for name, setting in settings.items()}
    attributes |= {name: setting.attribute for name, setting in BrokerConfig.SETTINGS.items() if name not in inherited}
    return [complaint.partition(" ")[0] for complaint in repository.unread_settings(attributes, modules)]


def test_no_setting_is_accepted_and_ignored() -> None:
    assert sorted(set(unread()) - READ_BY_THE_CONFIG - set(STORED)) == []


@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig, AdminConfig], ids=lambda each: each.__name__)
def test_no_setting_of_a_client_is_accepted_and_ignored(config: type[ClientConfig]) -> None:
    everything = modules_under(SOURCE / "barnabas" / "client", SOURCE)
    readers = [each for each in everything if each.name != "barnabas.client.settings"]
    attributes = {name: setting.attribute for name, setting in config.SETTINGS.items()}
    unread = {complaint.partition(" ")[0] for complaint in repository.unread_settings(attributes, readers)}
    assert sorted(unread - FOLDED_BY_THE_CLIENTS_CONFIG) == []


def test_no_excuse_is_out_of_date() -> None:
    """Whoever makes one of these settings work takes it from the list, and says so in its help."""
    assert sorted(set(STORED) - set(unread())) == []


# Each check finds what it is for


@pytest.mark.parametrize(
    "line",
    [
        "see /" + "work/main/file",
        "path=/" + "root/x",
        '"/' + 'home/me/x"',
        "https://py" + "pi.org/simple",
        "files.python" + "hosted.org",
        "https://repo1.maven" + ".org/maven2",
        "registry.npm" + "js.org",
    ],
)
def test_traces_are_found(line: str) -> None:
    assert len(repository.machine_traces("f", f"fine\n{line}\n")) == 1
    assert repository.machine_traces("f", f"fine\n{line}\n")[0].startswith("f:2: ")


@pytest.mark.parametrize("line", ["a/work/b", "homework/x", "/tmp/x", "/var/lib/barnabas", "from PyPI", "~/work/x"])
def test_no_trace_is_made_up(line: str) -> None:
    assert repository.machine_traces("f", line) == []


@pytest.mark.parametrize(
    ("changelog", "faults"),
    [
        ("# Changelog\n\n## Unreleased\n- Something.\n", 0),
        ("# Changelog\n\n## [Unreleased]\n- Something.\n\n## 0.0.1\n- Old.\n", 0),
        ("# Changelog\n\n## 1.2.3 (today)\n- Something.\n", 0),
        ("# Changelog\n\n## 1.2.2\n- Old.\n", 1),
        ("# Changelog\n\n## Unreleased\n\n## 1.2.2\n- Old.\n", 1),
        ("# Changelog\n", 1),
    ],
)
def test_a_neglected_changelog_is_found(changelog: str, faults: int) -> None:
    assert len(repository.changelog_faults(changelog, "1.2.3")) == faults


def test_unread_settings_are_found() -> None:
    attributes = {"a.b": "a_b", "c.d": "c_d", "e.f": "e_f"}
    reading = module("x", "y = self._config.a_b + other.c_d\nconfig.e_f = 1\n")
    assert repository.unread_settings(attributes, [reading]) == ["c.d is read by nothing", "e.f is read by nothing"]
