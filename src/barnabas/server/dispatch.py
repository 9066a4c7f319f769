"""From a frame to its handler, and from the response back to bytes.

The table below is the ApiVersions answer: an API is served if and only if it stands here and Kafka serves it on such a
listener, at all the versions that `protocol.apis` gives for it. Handlers and messages are imported when the first
request for them comes, so that start-up stays small.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from barnabas.protocol import apis
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.framing import Output, append_response, decode_request_header
from barnabas.protocol.message import DecodeError, Message
from barnabas.runtime.interfaces import Socket
from barnabas.server.context import ListenerKind, RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

HANDLERS: Mapping[ApiKey, str] = MappingProxyType(
    {
        ApiKey.PRODUCE: "produce",
        ApiKey.FETCH: "fetch",
        ApiKey.LIST_OFFSETS: "list_offsets",
        ApiKey.METADATA: "metadata",
        ApiKey.OFFSET_COMMIT: "offset_commit",
        ApiKey.OFFSET_FETCH: "offset_fetch",
        ApiKey.FIND_COORDINATOR: "find_coordinator",
        ApiKey.JOIN_GROUP: "join_group",
        ApiKey.HEARTBEAT: "heartbeat",
        ApiKey.LEAVE_GROUP: "leave_group",
        ApiKey.SYNC_GROUP: "sync_group",
        ApiKey.DESCRIBE_GROUPS: "describe_groups",
        ApiKey.LIST_GROUPS: "list_groups",
        ApiKey.API_VERSIONS: "api_versions",
        ApiKey.CREATE_TOPICS: "create_topics",
        ApiKey.DELETE_TOPICS: "delete_topics",
        ApiKey.DELETE_RECORDS: "delete_records",
        ApiKey.INIT_PRODUCER_ID: "init_producer_id",
        ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
        ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
        ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
        ApiKey.END_TXN: "end_txn",
        ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
        ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
        ApiKey.DESCRIBE_CONFIGS: "describe_configs",
        ApiKey.ALTER_CONFIGS: "alter_configs",
        ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
        ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
        ApiKey.CREATE_PARTITIONS: "create_partitions",
        ApiKey.DELETE_GROUPS: "delete_groups",
        ApiKey.ELECT_LEADERS: "elect_leaders",
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
        ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
        ApiKey.OFFSET_DELETE: "offset_delete",
        ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
        ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
        ApiKey.VOTE: "vote",
        ApiKey.BEGIN_QUORUM_EPOCH: "begin_quorum_epoch",
        ApiKey.END_QUORUM_EPOCH: "end_quorum_epoch",
        ApiKey.DESCRIBE_QUORUM: "describe_quorum",
        ApiKey.ALTER_PARTITION: "alter_partition",
        ApiKey.UPDATE_FEATURES: "update_features",
        ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
        ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
        ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
        ApiKey.BROKER_REGISTRATION: "broker_registration",
        ApiKey.BROKER_HEARTBEAT: "broker_heartbeat",
        ApiKey.UNREGISTER_BROKER: "unregister_broker",
        ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
        ApiKey.LIST_TRANSACTIONS: "list_transactions",
        ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
        ApiKey.CONTROLLER_REGISTRATION: "controller_registration",
        ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
        ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "get_telemetry_subscriptions",
        ApiKey.PUSH_TELEMETRY: "push_telemetry",
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_replicas_to_dirs",
        ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
        ApiKey.ADD_RAFT_VOTER: "add_raft_voter",
        ApiKey.REMOVE_RAFT_VOTER: "remove_raft_voter",
        ApiKey.UPDATE_RAFT_VOTER: "update_raft_voter",
    }
)

# Only the active controller may do these: any other node passes them on to it.
FORWARDED = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)

Response = Message


def served_on(listener: ListenerKind) -> list[ApiKey]:
    """In the order of the keys."""
    on_controller = listener is ListenerKind.CONTROLLERS
    facts = {key: apis.api(key) for key in sorted(HANDLERS)}
    return [key for key, api in facts.items() if (api.on_controller if on_controller else api.on_broker)]


Handler = Callable[["Broker", RequestContext, Any], Response | Awaitable[Response] | None]
# Takes a handler and gives what stands in its place: the way in for faults that a test asks for. It is called once for
# each API, when that is first asked for, so that a broker without it pays nothing.
Around = Callable[[ApiKey, Handler], Handler]


class Route:
    """What it takes to serve one API."""

    __slots__ = ("decode", "handle", "max_version", "min_version", "name")

    def __init__(self, key: ApiKey, around: Around | None, *, unstable: bool) -> None:
        api = apis.api(key)
        self.name = key.name
        self.min_version = api.min_version
        self.max_version = api.max_version if unstable else api.max_stable_version
        self.decode: Callable[[memoryview, int, int], tuple[Any, int]] = apis.request_class(key).decode
        self.handle: Handler = importlib.import_module(f"barnabas.server.handlers.{HANDLERS[key]}").handle
        if key in FORWARDED:
            self.handle = forwarding(self.handle)
        if around is not None:
            self.handle = around(key, self.handle)


def forwarding(handle: Handler) -> Handler:
    """Here, if this node is the active controller; else by that one."""

    def handle_or_forward(
        broker: Broker, context: RequestContext, request: Any
    ) -> Response | Awaitable[Response] | None:
        if broker.controller.quorum.is_leader:
            return handle(broker, context, request)
        return broker.controller_channel.forward(context, request)

    return handle_or_forward


class Reply:
    """One request's answer: either `response` is there, or `waiting` will give it."""

    __slots__ = ("_context", "response", "waiting")

    def __init__(self, context: RequestContext, result: Response | Awaitable[Response]) -> None:
        self._context = context
        self.response: Any = None
        self.waiting: Any = None
        if isinstance(result, Message):
            self.response = result
        else:
            self.waiting = result

    @property
    def name(self) -> str:
        return f"{ApiKey(self._context.api_key).name} version {self._context.api_version}"

    def encode(self, output: Output) -> None:
        if self.response is not None:  # an answer may turn out to be unwanted
            context = self._context
            append_response(output, self.response, context.api_key, context.api_version, context.correlation_id)


class Dispatcher:
    """For one kind of listener: that of clients and brokers, or that of controllers."""

    def __init__(self, broker: Broker, listener: ListenerKind, around: Around | None = None) -> None:
        self._broker = broker
        self._listener = listener
        self._around = around
        self._routes: dict[int, Route] = {}  # filled as APIs are first asked for
        self._latest: Route | None = None  # of the request that was started last, on any connection

    @property
    def latest(self) -> str:
        """The API of the request that was started last, on any connection; what runs now, while something does."""
        return "none" if self._latest is None else self._latest.name

    def start(self, frame: memoryview, socket: Socket) -> Reply | None:
        """Begins to serve one request. None where the client expects no answer."""
        api_key, api_version, correlation_id, client_id, position = decode_request_header(frame, 0)
        route = self._routes.get(api_key) or self._route(api_key)
        if not route.min_version <= api_version <= route.max_version:
            if api_key != ApiKey.API_VERSIONS:
                raise DecodeError(f"{route.name} version {api_version} is not served")
            return self._unsupported_api_versions(correlation_id, client_id, socket)
        self._latest = route
        request, _end = route.decode(frame, position, api_version)
        context = RequestContext(
            api_key,
            api_version,
            correlation_id,
            client_id,
            self._listener,
            socket.local_address,
            socket.peer_address,
        )
        result = route.handle(self._broker, context, request)
        return None if result is None else Reply(context, result)

    def _route(self, api_key: int) -> Route:
        try:
            key = ApiKey(api_key)
        except ValueError:
            raise DecodeError(f"API key {api_key} is unknown") from None
        if key not in served_on(self._listener):
            raise DecodeError(f"{key.name} is not served on a listener for {self._listener.value}")
        route = self._routes[key] = Route(key, self._around, unstable=self._broker.config.unstable_api_versions_enable)
        return route

    def _unsupported_api_versions(self, correlation_id: int, client_id: str | None, socket: Socket) -> Reply:
        """A client newer than this broker gets version 0's answer, from which it learns what it may ask (KIP-511)."""
        from barnabas.server.handlers import api_versions

        context = RequestContext(
            api_key=ApiKey.API_VERSIONS,
            api_version=0,
            correlation_id=correlation_id,
            client_id=client_id,
            listener=self._listener,
            local_address=socket.local_address,
            peer_address=socket.peer_address,
        )
        return Reply(context, api_versions.unsupported_version())
