"""Settings of consumer groups: what must fit together, and what single groups may have."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.group import GroupConfig
from barnabas.config.validation import ConfigError, OutOfRange


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms: 45000"),
        ({"group.consumer.session.timeout.ms": "60001"}, "at most group.consumer.max.session.timeout.ms, 60000"),
        ({"group.consumer.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms: 5000"),
        ({"group.consumer.max.heartbeat.interval.ms": "4999"}, "group.consumer.min.heartbeat.interval.ms: 5000"),
        (
            {"group.consumer.max.heartbeat.interval.ms": "45000", "group.consumer.heartbeat.interval.ms": "45000"},
            "less than group.consumer.session.timeout.ms",
        ),
        ({"group.consumer.min.assignment.interval.ms": "15001"}, "at most group.consumer.max.assignment.interval.ms"),
        ({"group.consumer.assignors": "uniform,sticky"}, "group.consumer.assignors"),
        ({"group.consumer.assignors": ""}, "group.consumer.assignors"),
        ({"group.consumer.migration.policy": "sometimes"}, "one of disabled, downgrade, upgrade, bidirectional"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "classic must be among them"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(overrides)
    assert complaint in str(refused.value)


def test_the_policy_may_be_written_in_capitals() -> None:
    assert BrokerConfig({"group.consumer.migration.policy": "UPGRADE"}).group_consumer_migration_policy == "upgrade"


def test_a_group_has_what_its_broker_has() -> None:
    broker = BrokerConfig({"group.consumer.heartbeat.interval.ms": "7000"})
    assert GroupConfig({}, broker).consumer_heartbeat_interval_ms == 7000
    assert GroupConfig({"consumer.heartbeat.interval.ms": "8000"}, broker).consumer_heartbeat_interval_ms == 8000


def test_a_stored_value_out_of_range_counts_as_the_nearest_one() -> None:
    broker = BrokerConfig({})
    overrides = {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "999999"}
    config = GroupConfig(overrides, broker)
    assert (config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms) == (45_000, 15_000)
    with pytest.raises(OutOfRange):
        GroupConfig.checked(overrides, broker)


def test_a_dynamic_interval_out_of_range_does_not_stop_the_broker() -> None:
    broker = BrokerConfig({"group.consumer.assignment.interval.ms": "99999"})
    assert GroupConfig({}, broker).consumer_assignment_interval_ms == 15_000
