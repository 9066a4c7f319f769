"""Settings of clients as keyword arguments: types, ranges, and what is said of those that are wrong."""

from typing import Any

import pytest

from barnabas.client.settings import AdminConfig, ProducerConfig
from barnabas.config.validation import ConfigError

SERVERS = "localhost:9092"


def test_defaults_are_those_of_kafka() -> None:
    config = ProducerConfig(bootstrap_servers=SERVERS)
    assert (config.batch_size, config.linger_ms, config.buffer_memory) == (16_384, 5, 32 << 20)
    assert (config.acks, config.is_idempotent, config.retries) == (-1, True, (1 << 31) - 1)
    assert (config.delivery_timeout_ms, config.max_block_ms, config.request_timeout_ms) == (120_000, 60_000, 30_000)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a:1", (("a", 1),)),
        ("a:1,b:2", (("a", 1), ("b", 2))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        ("a", (("a", 9092),)),
        ("[::1]:9093", (("::1", 9093),)),
        ("[::1]", (("::1", 9092),)),
        ("PLAINTEXT://a:1", (("a", 1),)),
    ],
)
def test_servers(given: Any, found: Any) -> None:
    assert AdminConfig(bootstrap_servers=given).bootstrap_servers == found


@pytest.mark.parametrize(("given", "acks"), [("all", -1), ("-1", -1), (-1, -1), (1, 1), ("0", 0), (0, 0)], ids=repr)
def test_acks(given: Any, acks: int) -> None:
    assert ProducerConfig(bootstrap_servers=SERVERS, acks=given).acks == acks


def test_text_is_read_as_in_a_file() -> None:
    config = ProducerConfig(bootstrap_servers=SERVERS, linger_ms="7", enable_idempotence="false")
    assert config.linger_ms == 7
    assert not config.is_idempotent


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "bootstrap_servers is missing"),
        ({"bootstrap_servers": "a:b"}, "no host:port"),
        ({"bootstrap_servers": ":1"}, "no host:port"),
        ({"bootstrap_servers": "a:70000"}, "no host:port"),
        ({"bootstrap_servers": 5}, "a list of texts"),
        ({"bootstrap_servers": [5]}, "a list of texts"),
        ({"linger": 5}, "linger is not a setting of a producer; did you mean linger_ms?"),
        ({"batchsize": 5}, "did you mean batch_size?"),
        ({"zzz": 5}, "zzz is not a setting of a producer"),
        ({"linger_ms": 5.5}, "linger_ms: 5.5 of type float is not allowed; it must be a whole number"),
        ({"linger_ms": True}, "it must be a whole number"),
        ({"linger_ms": "soon"}, "it must be a whole number"),
        ({"linger_ms": -1}, "it must be at least 0"),
        ({"enable_idempotence": 1}, "it must be True or False"),
        ({"client_id": 5}, "it must be text"),
        ({"acks": 2}, "it must be one of"),
        ({"compression_type": "zip"}, "it must be one of none, gzip"),
        ({"acks": 1, "enable_idempotence": True}, "not allowed with idempotence"),
        ({"acks": 1, "transactional_id": "t"}, "not allowed with idempotence"),
        ({"retries": 0, "enable_idempotence": True}, "retries: 0"),
        ({"max_in_flight_requests_per_connection": 6, "enable_idempotence": True}, "at most 5"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactions need enable_idempotence"),
        ({"transactional_id": ""}, "it must not be empty"),
        ({"compression_gzip_level": 77}, "it must be between 1 and 9, or -1"),
        ({"delivery_timeout_ms": 1}, "at least linger_ms + request_timeout_ms"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig(
            **({"bootstrap_servers": SERVERS} if given and "bootstrap_servers" not in given else {}), **given
        )
    assert words in str(caught.value)


@pytest.mark.parametrize("given", [{"acks": 1}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}], ids=repr)
def test_idempotence_is_left_where_other_settings_rule_it_out(given: dict[str, Any]) -> None:
    assert not ProducerConfig(bootstrap_servers=SERVERS, **given).is_idempotent
