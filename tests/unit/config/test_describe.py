"""What DescribeConfigs shows: values, sources and synonyms from each layer."""

from __future__ import annotations

from barnabas.config.broker import BrokerConfig
from barnabas.config.describe import (
    BrokerLayers,
    ConfigSource,
    Entry,
    SynonymEntry,
    broker_entries,
    client_metrics_entries,
    cluster_entries,
    topic_entries,
)
from barnabas.config.setting import ValueType


def layers(
    *, broker: dict[str, str] | None = None, cluster: dict[str, str] | None = None, static: dict[str, str] | None = None
) -> BrokerLayers:
    return BrokerLayers(broker or {}, cluster or {}, BrokerConfig(static or {}))


def entry(entries: list[Entry], name: str) -> Entry:
    (found,) = [each for each in entries if each.name == name]
    return found


def test_every_layer_is_a_synonym_strongest_first() -> None:
    stacked = layers(
        broker={"message.max.bytes": "3"}, cluster={"message.max.bytes": "2"}, static={"message.max.bytes": "1"}
    )
    found = entry(topic_entries({"max.message.bytes": "4"}, stacked), "max.message.bytes")
    assert (found.value, found.source, found.type) == ("4", ConfigSource.DYNAMIC_TOPIC_CONFIG, ValueType.INT)
    assert found.synonyms == (
        SynonymEntry("max.message.bytes", "4", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        SynonymEntry("message.max.bytes", "3", ConfigSource.DYNAMIC_BROKER_CONFIG),
        SynonymEntry("message.max.bytes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        SynonymEntry("message.max.bytes", "1", ConfigSource.STATIC_BROKER_CONFIG),
        SynonymEntry("message.max.bytes", "1048588", ConfigSource.DEFAULT_CONFIG),
    )
    of_broker = entry(broker_entries(stacked), "message.max.bytes")
    assert (of_broker.value, of_broker.synonyms) == ("3", found.synonyms[1:])
    assert entry(topic_entries({}, stacked), "max.message.bytes").value == "3"


def test_hours_stand_in_for_milliseconds_without_showing() -> None:
    found = entry(topic_entries({}, layers(static={"log.retention.hours": "1"})), "retention.ms")
    assert (found.value, found.source, found.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, ())
    both = layers(static={"log.retention.hours": "1", "log.retention.ms": "5"})
    found = entry(topic_entries({}, both), "retention.ms")
    assert (found.value, found.source) == ("5", ConfigSource.STATIC_BROKER_CONFIG)
    assert [each.name for each in found.synonyms] == ["log.retention.ms", "log.retention.hours", "log.retention.hours"]
    assert entry(broker_entries(both), "log.retention.hours").synonyms[0].name == "log.retention.hours"


def test_a_setting_without_synonyms_has_none() -> None:
    found = entry(topic_entries({}, layers()), "remote.storage.enable")
    assert (found.value, found.synonyms) == ("false", ())


def test_read_only_is_what_cannot_change() -> None:
    entries = broker_entries(layers())
    assert entry(entries, "num.partitions").read_only
    assert not entry(entries, "message.max.bytes").read_only
    assert not any(each.read_only for each in topic_entries({}, layers()))


def test_values_are_shown_as_decoded() -> None:
    found = entry(topic_entries({"cleanup.policy": "compact, delete"}, layers()), "cleanup.policy")
    assert (found.value, found.synonyms[0].value) == ("compact,delete", "compact,delete")


def test_cluster_wide_values_are_shown_as_given_and_alone() -> None:
    (found,) = cluster_entries({"log.retention.ms": " 6 "})
    assert (found.value, found.source) == (" 6 ", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert len(found.synonyms) == 1


def test_internal_settings_show_only_where_set() -> None:
    name = "internal.segment.bytes"
    assert name not in [each.name for each in topic_entries({}, layers())]
    entries = topic_entries({name: "5"}, layers())
    assert entry(entries, name).value == "5"
    assert entry(entries, "segment.bytes").value == "1073741824"


def test_what_another_version_stored_shows_as_a_secret() -> None:
    found = entry(topic_entries({"from.the.future": "x"}, layers()), "from.the.future")
    assert (found.value, found.sensitive, found.type) == (None, True, 0)
    assert entry(broker_entries(layers(cluster={"from.the.future": "x"})), "from.the.future").value is None
    (alone,) = cluster_entries({"from.the.future": "x"})
    assert alone.sensitive


def test_stored_nonsense_does_not_hide_the_rest() -> None:
    assert entry(topic_entries({"retention.ms": "x"}, layers()), "retention.ms").value == "604800000"
    assert entry(broker_entries(layers(broker={"message.max.bytes": "x"})), "message.max.bytes").value == "1048588"


def test_client_metrics() -> None:
    entries = client_metrics_entries({"metrics": "a,b"})
    assert [each.name for each in entries] == ["interval.ms", "match", "metrics"]
    assert entry(entries, "metrics").source is ConfigSource.CLIENT_METRICS_CONFIG
    assert entry(entries, "interval.ms").source is ConfigSource.DEFAULT_CONFIG
