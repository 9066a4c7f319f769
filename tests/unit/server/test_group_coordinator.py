"""Which shard a group belongs to, and who its clients are to other people."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.metadata.image import EMPTY
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.server.coordinators.coordinator import java_hash
from barnabas.server.coordinators.group_client import java_address
from barnabas.server.coordinators.group_coordinator import GroupCoordinator
from barnabas.server.handlers import heartbeat, join_group, leave_group, offset_delete, sync_group

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", 0),  # the least number of 32 bits has no positive counterpart
        ("connect-cluster", 1440343063),
        ("groupé", 1237460406),
        ("😀", 1772899),
    ],
)
def test_the_hash_is_javas_without_its_sign(text: str, number: int) -> None:
    assert java_hash(text) == number


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "/2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.0.0.1", "/10.0.0.1"),
    ],
)
def test_addresses_as_java_writes_them(host: str, shown: str) -> None:
    assert java_address(host) == shown


@pytest.mark.parametrize(
    ("handler", "request_class"),
    [
        (join_group, JoinGroupRequest),
        (sync_group, SyncGroupRequest),
        (heartbeat, HeartbeatRequest),
        (leave_group, LeaveGroupRequest),
        (offset_delete, OffsetDeleteRequest),
    ],
)
def test_a_group_without_a_name_is_refused_by_whoever_is_asked(handler: Any, request_class: Any) -> None:
    """Kafka says so at once. That somebody else coordinates the group would send a client on a search without end."""
    broker = SimpleNamespace(controller=SimpleNamespace(image=EMPTY), config=BrokerConfig({}), node_id=1)
    broker.groups = GroupCoordinator(cast("Broker", broker))
    context = SimpleNamespace(api_version=0, client_id="c", peer_address=("127.0.0.1", 1))
    assert handler.handle(broker, context, request_class(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert handler.handle(broker, context, request_class(group_id="g")).error_code == ErrorCode.NOT_COORDINATOR
