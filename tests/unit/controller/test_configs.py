"""Changes of configs decided into records. What each answers is in tests/scripts/configs, recorded from Kafka."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.controller import configs
from barnabas.controller.configs import Alteration, Edit, Operation
from barnabas.controller.decision import RECORDS_MAX
from barnabas.errors import ErrorCode
from barnabas.metadata.apply import apply
from barnabas.metadata.image import EMPTY, ConfigResource, MetadataImage, ResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_configs import AlterableConfig as Replacement
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.topic_record import TopicRecord

STATIC = BrokerConfig({"node.id": "1"})
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
CLUSTER = ConfigResource(ResourceType.BROKER, "")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")


def image_with(*records: Message) -> MetadataImage:
    return apply(EMPTY, records, offset=len(records) - 1, leader_epoch=1, timestamp_ms=0)[0]


def image(*extra: Message) -> MetadataImage:
    return image_with(TopicRecord(name="t", topic_id=bytes(15) + b"\x07"), *extra)


def stored(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def edits(*, replaces: bool = False, resource: ConfigResource = TOPIC, **values: str | None) -> Alteration:
    """None deletes."""
    return Alteration(
        resource,
        tuple(
            Edit(name.replace("_", "."), Operation.DELETE if value is None else Operation.SET, value)
            for name, value in values.items()
        ),
        replaces,
    )


def decided(before: MetadataImage, alteration: Alteration) -> list[Message]:
    decision = configs.alter(before, [alteration], STATIC)
    assert decision.response == [None]
    return list(decision.records)


def refused(before: MetadataImage, alteration: Alteration) -> ErrorCode:
    decision = configs.alter(before, [alteration], STATIC)
    (refusal,) = decision.response
    assert refusal is not None
    assert refusal.message
    assert decision.records == []
    return refusal.error


def test_a_value_is_written_as_given() -> None:
    assert decided(image(), edits(retention_ms=" 7 ")) == [stored(TOPIC, "retention.ms", " 7 ")]


def test_an_unchanged_topic_needs_no_record_and_an_unchanged_broker_does() -> None:
    before = image(stored(TOPIC, "retention.ms", "7"), stored(CLUSTER, "message.max.bytes", "7"))
    assert decided(before, edits(retention_ms="7")) == []
    assert decided(before, edits(segment_ms=None)) == []
    unchanged = edits(resource=CLUSTER, message_max_bytes="7")
    assert decided(before, unchanged) == [stored(CLUSTER, "message.max.bytes", "7")]


def test_replacing_deletes_what_is_not_named() -> None:
    before = image(stored(TOPIC, "retention.ms", "7"), stored(TOPIC, "segment.ms", "8"))
    assert decided(before, edits(replaces=True, retention_ms="9", flush_ms="1")) == [
        stored(TOPIC, "retention.ms", "9"),
        stored(TOPIC, "flush.ms", "1"),
        stored(TOPIC, "segment.ms", None),
    ]


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, Operation.APPEND, "compact", "delete,compact"),
        ("compact", Operation.APPEND, "compact", None),
        ("compact", Operation.APPEND, "delete,compact", "compact,delete"),
        ("", Operation.APPEND, "compact", "compact"),
        ("compact,delete", Operation.SUBTRACT, "compact", "delete"),
        (None, Operation.SUBTRACT, "delete", ""),
        ("compact", Operation.SUBTRACT, "delete", None),
    ],
)
def test_lists(before: str | None, operation: Operation, value: str, after: str | None) -> None:
    start = image(stored(TOPIC, "cleanup.policy", before)) if before is not None else image()
    records = decided(start, Alteration(TOPIC, (Edit("cleanup.policy", operation, value),), False))
    assert records == ([] if after is None else [stored(TOPIC, "cleanup.policy", after)])


def test_only_lists_of_topics_and_brokers_can_be_appended_to() -> None:
    for resource, name in (
        (TOPIC, "retention.ms"),
        (TOPIC, "nonsense"),
        (CLUSTER, "message.max.bytes"),
        (METRICS, "metrics"),
    ):
        alteration = Alteration(resource, (Edit(name, Operation.APPEND, "1"),), False)
        assert refused(image(), alteration) is ErrorCode.INVALID_CONFIG


def test_one_bad_value_leaves_the_whole_resource_alone_and_the_others_not() -> None:
    bad = edits(retention_ms="7", segment_bytes="1")
    good = edits(resource=CLUSTER, message_max_bytes="9")
    decision = configs.alter(image(), [bad, good], STATIC)
    assert [outcome is None for outcome in decision.response] == [False, True]
    assert decision.records == [stored(CLUSTER, "message.max.bytes", "9")]


def test_a_topics_result_is_checked_against_its_brokers_defaults() -> None:
    before = image(stored(CLUSTER, "log.cleaner.max.compaction.lag.ms", "5"))
    assert refused(before, edits(min_compaction_lag_ms="6")) is ErrorCode.INVALID_CONFIG
    assert decided(before, edits(min_compaction_lag_ms="4"))


def test_topics() -> None:
    missing = ConfigResource(ResourceType.TOPIC, "missing")
    assert refused(image(), edits(resource=missing, retention_ms="1")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(image(), edits(resource=missing, nonsense="1")) is ErrorCode.INVALID_CONFIG
    unnamed = ConfigResource(ResourceType.TOPIC, "")
    assert refused(image(), edits(resource=unnamed, retention_ms="1")) is ErrorCode.INVALID_REQUEST
    badly_named = ConfigResource(ResourceType.TOPIC, "a/b")
    assert refused(image(), edits(resource=badly_named, retention_ms="1")) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message.max.bytes", "-1"),
        ("num.partitions", "1"),
        ("num.io.threads", "1"),
        ("log.retention.ms", "0"),
    ],
)
def test_brokers_refuse(name: str, value: str) -> None:
    for resource in (CLUSTER, BROKER):
        alteration = Alteration(resource, (Edit(name, Operation.SET, value),), False)
        assert refused(image(), alteration) is ErrorCode.INVALID_REQUEST


def test_a_name_that_nobody_knows_is_stored() -> None:
    """What a broker then shows, and what else is checked, Kafka says in tests/scripts/configs/unknown.txt."""
    for resource in (CLUSTER, BROKER):
        assert decided(image(), edits(resource=resource, nonsense="1")) == [stored(resource, "nonsense", "1")]


def test_anything_may_be_deleted_from_brokers() -> None:
    assert decided(image(), edits(resource=BROKER, nonsense=None)) == [stored(BROKER, "nonsense", None)]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "x", ErrorCode.INVALID_CONFIG),
        ("nonsense", "1", ErrorCode.INVALID_REQUEST),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "nonsense=a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=[", ErrorCode.INVALID_CONFIG),
    ],
)
def test_client_metrics_refuse(name: str, value: str, error: ErrorCode) -> None:
    assert refused(image(), Alteration(METRICS, (Edit(name, Operation.SET, value),), False)) is error


def test_unnamed_resources() -> None:
    for resource_type in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        alteration = edits(resource=ConfigResource(resource_type, ""), metrics="*")
        assert refused(image(), alteration) is ErrorCode.INVALID_REQUEST


def test_groups_have_no_settings_yet() -> None:
    group = ConfigResource(ResourceType.GROUP, "g")
    assert refused(image(), edits(resource=group, consumer_session_timeout_ms="1")) is ErrorCode.INVALID_CONFIG
    assert decided(image(), edits(resource=group, consumer_session_timeout_ms=None)) == []


# Eligible leader replicas (KIP-966)

WITH_ELIGIBLE_LEADERS = image(
    FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    stored(CLUSTER, "min.insync.replicas", "1"),
)


def test_a_new_minimum_clears_the_eligible_leaders() -> None:
    assert decided(WITH_ELIGIBLE_LEADERS, edits(min_insync_replicas="2")) == [
        stored(TOPIC, "min.insync.replicas", "2"),
        ClearElrRecord(topic_name="t"),
    ]
    assert decided(WITH_ELIGIBLE_LEADERS, edits(resource=CLUSTER, min_insync_replicas="2")) == [
        stored(CLUSTER, "min.insync.replicas", "2"),
        ClearElrRecord(topic_name=""),
    ]
    assert decided(image(), edits(min_insync_replicas="2")) == [stored(TOPIC, "min.insync.replicas", "2")]


def test_the_minimum_holds_for_the_whole_cluster_and_always() -> None:
    for value in ("2", None):
        alteration = edits(resource=BROKER, min_insync_replicas=value)
        assert refused(WITH_ELIGIBLE_LEADERS, alteration) is ErrorCode.INVALID_CONFIG
        assert decided(image(), alteration)
    for alteration in (
        edits(resource=CLUSTER, min_insync_replicas=None),
        edits(resource=CLUSTER, replaces=True, message_max_bytes="1"),
    ):
        assert refused(WITH_ELIGIBLE_LEADERS, alteration) is ErrorCode.INVALID_CONFIG
    assert decided(WITH_ELIGIBLE_LEADERS, edits(resource=CLUSTER, replaces=True, min_insync_replicas="1"))


# Form


def form(*alterations: Alteration) -> list[ErrorCode | None]:
    return [None if outcome is None else outcome.error for outcome in configs.check_form(alterations, node_id=1)]


def test_a_resource_named_twice_is_refused_both_times() -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert form(edits(retention_ms="1"), edits(resource=CLUSTER), edits(retention_ms="2")) == [invalid, None, invalid]


@pytest.mark.parametrize(
    "alteration",
    [
        Alteration(TOPIC, (Edit("a", 0, "1"), Edit("a", 1, None)), False),
        Alteration(TOPIC, (Edit("a", 0, None),), False),
        Alteration(TOPIC, (Edit("a", 2, None),), False),
        Alteration(TOPIC, (Edit("a", 4, "1"),), False),
        Alteration(ConfigResource(ResourceType.BROKER, "2"), (), False),
        Alteration(ConfigResource(ResourceType.BROKER, "x"), (), False),
        Alteration(ConfigResource(ResourceType.BROKER_LOGGER, ""), (), False),
        Alteration(ConfigResource(ResourceType.BROKER_LOGGER, "1"), (), True),
        Alteration(ConfigResource(99, "x"), (), False),
    ],
)
def test_bad_form(alteration: Alteration) -> None:
    assert form(alteration) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    "alteration",
    [
        Alteration(TOPIC, (Edit("a", 1, None), Edit("b", 3, "1")), False),
        Alteration(CLUSTER, (), True),
        Alteration(BROKER, (), False),
        Alteration(ConfigResource(ResourceType.BROKER_LOGGER, "1"), (), False),
    ],
)
def test_good_form(alteration: Alteration) -> None:
    assert form(alteration) == [None]


def test_requests_become_alterations() -> None:
    incremental = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[AlterableConfig(name="a", config_operation=2, value="b")]
            )
        ]
    )
    assert configs.incremental_alterations(incremental) == [
        Alteration(TOPIC, (Edit("a", Operation.APPEND, "b"),), False)
    ]
    replacing = AlterConfigsRequest(
        resources=[ReplacedResource(resource_type=2, resource_name="t", configs=[Replacement(name="a", value="b")])]
    )
    assert configs.replacing_alterations(replacing) == [Alteration(TOPIC, (Edit("a", Operation.SET, "b"),), True)]


def test_too_many_records_are_refused_whole() -> None:
    brokers = edits(resource=CLUSTER)._replace(
        edits=tuple(Edit(f"unknown.{number}", Operation.DELETE, None) for number in range(RECORDS_MAX + 1))
    )
    decision = configs.alter(image(), [brokers], STATIC)
    assert decision.records == []
    assert [outcome and outcome.error for outcome in decision.response] == [ErrorCode.POLICY_VIOLATION]
