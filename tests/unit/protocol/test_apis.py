"""The table of APIs, against what a live Apache Kafka 4.3.1 broker answers to ApiVersions."""

import subprocess
import sys

import pytest

from barnabas.protocol.apis import (
    ADVERTISED_WITH_TELEMETRY_ONLY,
    ApiKey,
    advertised_versions,
    api,
    flexible_from,
    request_class,
    response_class,
)
from barnabas.protocol.message import NEVER_FLEXIBLE

# key: (first, last) as answered by a broker with default settings.
LIVE = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2),
    40: (1, 2), 41: (1, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1),
    49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0),
    66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
    80: (0, 1), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1), 88: (0, 0), 89: (0, 0),
    90: (0, 1), 91: (0, 0), 92: (0, 0),
}  # fmt: skip


def test_a_broker_can_answer_as_kafka_does() -> None:
    ours = {
        int(key): advertised_versions(key)
        for key in ApiKey
        if api(key).on_broker and key not in ADVERTISED_WITH_TELEMETRY_ONLY
    }
    assert ours == LIVE


def test_removed_apis_keep_their_keys() -> None:
    removed = [key.name for key in ApiKey if api(key).removed]
    assert removed == ["LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA", "CONTROLLED_SHUTDOWN"]
    assert [int(key) for key in ApiKey] == list(range(93))


def test_messages_are_found_by_key() -> None:
    for key in ApiKey:
        facts = api(key)
        if facts.removed:
            continue
        for message_class in (request_class(key), response_class(key)):
            assert key == message_class.API_KEY
            assert (facts.min_version, facts.max_version) == (message_class.MIN_VERSION, message_class.MAX_VERSION)
            assert flexible_from(key) == message_class.FLEXIBLE_FROM
    assert request_class(0) is request_class(0)


def test_an_api_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        api(93)
    with pytest.raises(KeyError):
        request_class(93)
    assert flexible_from(93) == NEVER_FLEXIBLE


def test_the_table_imports_no_message() -> None:
    program = (
        "import sys; import barnabas.protocol.framing;"
        "print([name for name in sys.modules if name.startswith('barnabas.protocol.messages.')"
        " and name != 'barnabas.protocol.messages._table'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
