"""Values from text and back, and configs that cannot be changed."""

from __future__ import annotations

import pytest

from barnabas.config.broker import BrokerConfig, effective, is_dynamic
from barnabas.config.endpoints import Endpoint, Server, Voter, told
from barnabas.config.setting import Config, Setting, ValueType, integer
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import Allowed, ConfigError, OutOfRange

PLAIN = BrokerConfig({})


def topic(**overrides: str) -> TopicConfig:
    return TopicConfig({name.replace("_", "."): text for name, text in overrides.items()}, PLAIN)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "1000", 1000),
        ("retention.ms", " 1000 ", 1000),
        ("retention.ms", "+1000", 1000),
        ("retention.ms", "-1", -1),
        ("retention.bytes", "9223372036854775807", (1 << 63) - 1),
        ("retention.bytes", "-9223372036854775808", -(1 << 63)),
        ("preallocate", "TRUE", True),
        ("preallocate", "false", False),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("cleanup.policy", "", ()),
        ("compression.type", "zstd", "zstd"),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_text_is_decoded(name: str, text: str, value: object) -> None:
    assert TopicConfig({name: text}, PLAIN).value(name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "1.0"),
        ("retention.ms", "--1"),
        ("retention.ms", "٣"),
        ("retention.bytes", "9223372036854775808"),
        ("max.message.bytes", "2147483648"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1_0"),
        ("min.cleanable.dirty.ratio", "inf"),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "Delete"),
        ("leader.replication.throttled.replicas", "0:1,*"),
        ("leader.replication.throttled.replicas", "0:1:2"),
        ("leader.replication.throttled.replicas", "-1:2"),
    ],
)
def test_bad_text_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: .* is not allowed; it must be "):
        TopicConfig({name: text}, PLAIN)


def test_out_of_range_is_told_from_malformed() -> None:
    setting = TopicConfig.SETTINGS["segment.bytes"]
    with pytest.raises(OutOfRange, match="it must be at least 1048576"):
        setting.decode("1")
    with pytest.raises(ConfigError) as caught:
        setting.decode("x")
    assert not isinstance(caught.value, OutOfRange)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1.0, "1.0"), (0.0, "0.0"), (1e-5, "1.0E-5"), (0.000123, "1.23E-4"), (12345678.0, "1.2345678E7")],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert TopicConfig.SETTINGS["min.cleanable.dirty.ratio"].encode(value) == text


def test_a_secret_is_in_no_message() -> None:
    refusing = Allowed(lambda value: False, "better")
    setting = Setting("some.password", ValueType.PASSWORD, None, refusing, help="A secret.")
    with pytest.raises(ConfigError, match="the value is not allowed; it must be better") as caught:
        setting.decode("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_config_is_immutable() -> None:
    config = topic()
    with pytest.raises(AttributeError):
        config.retention_ms = 1
    with pytest.raises(AttributeError):
        del config.retention_ms
    with pytest.raises(AttributeError):
        config.anything = 1  # type: ignore[attr-defined]
    assert not hasattr(config, "__dict__")


def test_an_attribute_must_carry_its_settings_name() -> None:
    with pytest.raises(AssertionError, match=r"a\.b must be the attribute a_b"):
        type(Config)("Wrong", (Config,), {"other": integer("a.b", 1, help="Wrong.")})


def test_equality_is_that_of_values() -> None:
    assert topic(retention_ms="604800000") == topic()
    assert topic(retention_ms="1") != topic()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown topic config name: nonsense"):
        topic(nonsense="1")
    with pytest.raises(ConfigError, match=r"Unknown broker config name: retention\.ms"):
        BrokerConfig({"retention.ms": "1"})


def test_usable_keeps_what_it_can() -> None:
    good, complaints = TopicConfig.usable({"retention.ms": "5", "segment.bytes": "1", "nonsense": "1"})
    assert good == {"retention.ms": "5"}
    assert [complaint.partition(" ")[0] for complaint in complaints] == ["segment.bytes:", "nonsense"]


@pytest.mark.parametrize(
    ("broker", "name", "value"),
    [
        ({}, "retention.ms", 604_800_000),
        ({"log.retention.hours": "2"}, "retention.ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention.ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention.ms", 4),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.ms": "-7"}, "retention.ms", -1),
        ({"log.roll.hours": "1"}, "segment.ms", 3_600_000),
        ({"log.roll.hours": "1", "log.roll.ms": "5"}, "segment.ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}, "flush.ms", 8),
        ({"message.max.bytes": "99"}, "max.message.bytes", 99),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min.cleanable.dirty.ratio", 0.25),
        ({"log.local.retention.ms": "-2"}, "local.retention.ms", -2),
    ],
)
def test_a_topic_inherits_from_its_broker(broker: dict[str, str], name: str, value: object) -> None:
    assert TopicConfig({}, BrokerConfig(broker)).value(name) == value


def test_a_topics_own_value_wins() -> None:
    assert TopicConfig({"retention.ms": "1"}, BrokerConfig({"log.retention.ms": "2"})).retention_ms == 1


def test_zero_retention_is_refused_for_brokers_only() -> None:
    assert topic(retention_ms="0").retention_ms == 0
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        with pytest.raises(ConfigError, match="other than 0"):
            BrokerConfig({name: "0"})


def test_internal_segment_bytes_knows_no_lower_limit() -> None:
    assert TopicConfig({"internal.segment.bytes": "100", "segment.bytes": "2000000"}, PLAIN).segment_bytes == 100


def test_checked_refuses_what_does_not_fit_together() -> None:
    crossed = BrokerConfig({"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"})
    assert TopicConfig({"retention.ms": "1"}, crossed).max_compaction_lag_ms == 5
    assert TopicConfig.checked({}, crossed).max_compaction_lag_ms == 5
    with pytest.raises(ConfigError, match=r"at most max\.compaction\.lag\.ms, which is 5"):
        TopicConfig.checked({"retention.ms": "1"}, crossed)
    with pytest.raises(ConfigError, match="no tiered storage"):
        TopicConfig.checked({"remote.storage.enable": "true"}, PLAIN)


def test_dynamic_values_lie_over_the_file() -> None:
    static = BrokerConfig({"message.max.bytes": "1", "num.partitions": "2"})
    config, complaints = effective(
        static, {"message.max.bytes": "3", "log.retention.ms": "4"}, {"message.max.bytes": "5"}
    )
    assert (config.message_max_bytes, config.log_retention_ms, config.num_partitions) == (5, 4, 2)
    assert complaints == []


def test_dynamic_values_that_cannot_be_used_are_left_out_and_told() -> None:
    config, complaints = effective(PLAIN, {"message.max.bytes": "-1", "num.partitions": "3", "nonsense": "1"})
    assert config == PLAIN
    assert len(complaints) == 3


def test_what_is_dynamic() -> None:
    assert is_dynamic("message.max.bytes")
    assert not is_dynamic("num.partitions")
    assert not is_dynamic("nonsense")


# Addresses


def test_endpoints() -> None:
    config = BrokerConfig(
        {
            "listeners": "plaintext://0.0.0.0:9092,CONTROLLER://[::1]:9093",
            "controller.listener.names": "controller",
            "advertised.listeners": "PLAINTEXT://kafka.example:19092",
            "controller.quorum.voters": "1@[::2]:2",
            "controller.quorum.bootstrap.servers": "a:1",
        }
    )
    assert config.listeners == (Endpoint("PLAINTEXT", "0.0.0.0", 9092), Endpoint("CONTROLLER", "::1", 9093))
    assert config.controller_quorum_voters == (Voter(1, "::2", 2),)
    assert config.controller_quorum_bootstrap_servers == (Server("a", 1),)
    for name in ("listeners", "controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        setting = BrokerConfig.SETTINGS[name]
        assert setting.decode(setting.encode(config.value(name)) or "") == config.value(name)


def test_what_others_are_told_of_listeners() -> None:
    named = (Endpoint("A", "a.example", 0), Endpoint("B", "", 9), Endpoint("C", "c.example", 3))
    bound = (Endpoint("C", "10.0.0.1", 33), Endpoint("A", "127.0.0.1", 11), Endpoint("B", "0.0.0.0", 9))
    assert told(named, bound) == (
        Endpoint("C", "c.example", 3),
        Endpoint("A", "a.example", 11),
        Endpoint("B", "0.0.0.0", 9),
    )
    assert told(named[:1], bound) == (Endpoint("A", "a.example", 11),)


def test_a_controller_alone_has_no_listener_for_brokers() -> None:
    """The setting often stands in a file that all nodes share."""
    config = BrokerConfig(
        {
            "process.roles": "controller",
            "controller.listener.names": "C",
            "listeners": "C://a:1",
            "inter.broker.listener.name": "INTERNAL",
        }
    )
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"listeners": "PLAINTEXT"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://host"}, "port between 0 and 65535"),
        ({"listeners": "PLAINTEXT://host:65536"}, "port between 0 and 65535"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "IPv6 address in brackets"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "a name of its own"),
        ({"listeners": "OTHER://a:1"}, "listener.security.protocol.map does not list"),
        ({"listeners": "SSL://a:1"}, "only PLAINTEXT is available yet"),
        ({"listeners": "A://a:1", "listener.security.protocol.map": "A:SASL_SSL"}, "only PLAINTEXT is available yet"),
        ({"listener.security.protocol.map": "A"}, "a colon and a security protocol"),
        ({"listener.security.protocol.map": "A:PLAINTEXT,a:SSL"}, "A is there twice"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients need an address"),
        (
            {"advertised.listeners": "A://a:1", "listener.security.protocol.map": "A:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
            "listeners has no such name",
        ),
        ({"inter.broker.listener.name": "OTHER"}, "listeners has no such name"),
        ({"controller.quorum.voters": "a:1"}, "id@host:port"),
        ({"log.dirs": "a,b"}, "a list of one entry"),
        ({"process.roles": "broker"}, "must know where the quorum is"),
        ({"process.roles": "broker", "controller.quorum.voters": "1@a:1"}, "a broker only, and cannot vote"),
        (
            {
                "process.roles": "broker",
                "controller.quorum.voters": "2@a:1",
                "controller.listener.names": "C",
                "listeners": "C://a:1",
                "listener.security.protocol.map": "C:PLAINTEXT",
            },
            "this node is no controller",
        ),
        (
            {"process.roles": "controller", "controller.listener.names": "C", "listeners": "C://a:1,PLAINTEXT://a:2"},
            "serves no clients",
        ),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "need a listener to speak on"),
        ({"controller.quorum.voters": "2@b:1"}, "node 1 is a controller, and must be among the voters"),
        ({"controller.quorum.bootstrap.servers": "a:1,b:1"}, "need a listener to speak on"),
        ({"controller.listener.names": "OTHER"}, "listeners has no such name"),
        ({"process.roles": ""}, "one or more of broker, controller"),
    ],
)
def test_addresses_that_cannot_be_meant(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig(overrides)


def test_a_named_listener_may_be_plain() -> None:
    config = BrokerConfig(
        {"listeners": "INSIDE://a:1", "listener.security.protocol.map": "INSIDE:PLAINTEXT", "log.dirs": "d"}
    )
    assert config.security_protocol("INSIDE") == "PLAINTEXT"
    assert config.data_directory == "d"
