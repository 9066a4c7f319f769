"""What DescribeConfigs shows of a config: each value, where it comes from, and what would count without it.

Four layers lie over each other: what was set for one broker while it runs, what was set so for all brokers, the
broker's file, and the built-in default. A topic's own value lies over all of them.
Does not know: messages and images. It is given mappings and returns entries.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import cache, cached_property
from typing import Final, NamedTuple

from barnabas.config.broker import BrokerConfig, effective
from barnabas.config.client_metrics import ClientMetricsConfig
from barnabas.config.group import GroupConfig
from barnabas.config.setting import Config, Setting, Update
from barnabas.config.topic import TopicConfig, inherited

UNKNOWN_TYPE: Final = 0  # of a setting that was stored by a version that knew it


class ConfigSource(IntEnum):
    """Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    type: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[SynonymEntry, ...]  # strongest first
    help: str | None


class BrokerLayers:
    """What was set at each layer, by name and as given. Whoever describes many topics keeps one for all of them."""

    def __init__(self, broker: Mapping[str, str], cluster: Mapping[str, str], static: BrokerConfig) -> None:
        self.broker: Final = broker
        self.cluster: Final = cluster
        self.static: Final = static

    @cached_property
    def config(self) -> BrokerConfig:
        """What counts, all layers taken together."""
        return effective(self.static, self.cluster, self.broker)[0]

    @cached_property
    def topic_entries(self) -> Mapping[str, Entry]:
        """What a topic has that sets nothing itself."""
        entries: dict[str, Entry] = {}
        for name, setting in TopicConfig.SETTINGS.items():
            synonyms = _broker_synonyms(setting.synonyms[0].name, self) if setting.synonyms else []
            value = setting.encode(inherited(setting, self.config))
            entries[name] = _entry(setting, value, synonyms, read_only=False)
        return entries


def topic_entries(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Entry]:
    """All that a topic has, whose own settings these are."""
    source = ConfigSource.DYNAMIC_TOPIC_CONFIG
    usable, _complaints = TopicConfig.usable(overrides)
    entries: list[Entry] = []
    for name, without in layers.topic_entries.items():
        own = usable.get(name)
        setting = TopicConfig.SETTINGS[name]
        if own is not None:
            value = setting.encode(setting.decode(own))
            entries.append(_entry(setting, value, [SynonymEntry(name, value, source), *without.synonyms], False))
        elif not setting.internal:
            entries.append(without)
    return entries + _unknown(overrides, TopicConfig, source, read_only=False)


def broker_entries(layers: BrokerLayers) -> list[Entry]:
    """All that one broker has."""
    config = layers.config
    entries: list[Entry] = []
    for name, setting in BrokerConfig.SETTINGS.items():
        value = setting.encode(config.value(name))
        read_only = setting.update is Update.READ_ONLY
        if not setting.internal or name in config.overrides:
            entries.append(_entry(setting, value, _broker_synonyms(name, layers), read_only))
    own = _unknown(layers.broker, BrokerConfig, ConfigSource.DYNAMIC_BROKER_CONFIG, read_only=True)
    of_all = _unknown(layers.cluster, BrokerConfig, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, read_only=True)
    found = {entry.name: entry for entry in own}
    for entry in of_all:
        stronger = found.get(entry.name)
        if stronger is not None:
            entry = stronger._replace(synonyms=stronger.synonyms + entry.synonyms)
        found[entry.name] = entry
    return entries + list(found.values())


def cluster_entries(cluster: Mapping[str, str]) -> list[Entry]:
    """What was set for all brokers, and nothing else. Kafka shows these as they were given."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries: list[Entry] = []
    for name, text in cluster.items():
        setting = BrokerConfig.SETTINGS.get(name)
        if setting is not None:
            synonym = SynonymEntry(name, None if setting.sensitive else text, source)
            entries.append(_entry(setting, text, [synonym], setting.update is Update.READ_ONLY))
    return entries + _unknown(cluster, BrokerConfig, source, read_only=True)


def client_metrics_entries(overrides: Mapping[str, str]) -> list[Entry]:
    config = ClientMetricsConfig(ClientMetricsConfig.usable(overrides)[0])
    entries: list[Entry] = []
    for name, setting in ClientMetricsConfig.SETTINGS.items():
        value = setting.encode(config.value(name))
        own = [SynonymEntry(name, value, ConfigSource.CLIENT_METRICS_CONFIG)] if name in config.overrides else []
        entries.append(_entry(setting, value, own, read_only=False))
    return entries


def group_entries(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Entry]:
    """All that a group has, whose own settings these are."""
    usable, _complaints = GroupConfig.usable(overrides)
    config = GroupConfig(usable, layers.config)
    entries: list[Entry] = []
    for name, setting in GroupConfig.SETTINGS.items():
        value = setting.encode(config.value(name))
        inherits = setting.synonyms[0].name if setting.synonyms else name
        if inherits in BrokerConfig.SETTINGS:
            synonyms = _broker_synonyms(inherits, layers)
        else:  # of groups that do not exist here, so that no broker has a setting for them
            synonyms = [SynonymEntry(inherits, setting.encode(setting.default), ConfigSource.DEFAULT_CONFIG)]
        if name in usable:
            synonyms.insert(0, SynonymEntry(name, value, ConfigSource.GROUP_CONFIG))
        entries.append(_entry(setting, value, synonyms, read_only=False))
    return entries


def _entry(setting: Setting, value: str | None, synonyms: list[SynonymEntry], read_only: bool) -> Entry:
    return Entry(
        name=setting.name,
        value=None if setting.sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        type=setting.type,
        read_only=read_only,
        sensitive=setting.sensitive,
        synonyms=tuple(synonyms),
        help=setting.help,
    )


def _unknown(stored: Mapping[str, str], known: type[Config], source: ConfigSource, *, read_only: bool) -> list[Entry]:
    """Nobody knows here whether these are secrets, so they are treated as such."""
    return [
        Entry(name, None, source, UNKNOWN_TYPE, read_only, True, (SynonymEntry(name, None, source),), None)
        for name in stored
        if name not in known.SETTINGS
    ]


def _broker_synonyms(name: str, layers: BrokerLayers) -> list[SynonymEntry]:
    """Every layer's value for the setting and those that stand in for it, from the setting itself on."""
    found: list[SynonymEntry] = []
    names = _stand_ins().get(name, (name,))
    for overrides, source in (
        (layers.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (layers.static.overrides, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        for each in names:
            if each in overrides:
                shown = None if BrokerConfig.SETTINGS[each].sensitive else overrides[each]
                found.append(SynonymEntry(each, shown, source))
    for each in names:
        setting = BrokerConfig.SETTINGS[each]
        if setting.default is not None:
            found.append(SynonymEntry(each, setting.encode(setting.default), ConfigSource.DEFAULT_CONFIG))
    # Kafka shows none where only a stand-in is set: log.retention.hours alone does not appear under log.retention.ms.
    while found and found[0].name != name:
        del found[0]
    return found


@cache
def _stand_ins() -> Mapping[str, tuple[str, ...]]:
    """For each broker setting that stands in for another, as hours for milliseconds, all of its kind in order."""
    groups = [tuple(each.name for each in setting.synonyms) for setting in TopicConfig.SETTINGS.values()]
    return {name: names for names in groups for name in names if len(names) > 1}
