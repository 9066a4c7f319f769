"""Answers that carry an error which a test asked for, in the form that each API has for it.

A request that would change something is refused without being carried out: the answer is made from the request. One
that only reads is carried out, and its answer then says the error instead: only the broker knows, for instance, which
partitions a fetch session has. Where one topic is meant, the rest of the request is served as ever.
Always holds: what is answered can be written at the version that was asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.message import Message, Structure
from barnabas.server.context import CloseConnection, RequestContext
from barnabas.server.dispatch import Handler
from barnabas.types import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.metadata.image import MetadataImage
    from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
    from barnabas.server.broker import Broker

Answer = Message | Awaitable[Message] | None


class Part(NamedTuple):
    """What stands in a list of the request is answered in a list of the response, by structures of this name."""

    asked: str
    answered: str
    structure: str
    inner: Part | None = None
    key: str = ""  # the answer's field for what the request has as a plain value


def _by_partition(topic: str, partition: str, **names: str) -> Part:
    inner = Part(names.get("asked", "partitions"), names.get("answered", "partitions"), partition)
    return Part(names.get("topics", "topics"), names.get("responses", "topics"), topic, inner)


_TRANSACTION_TOPIC = Part(
    "topics",
    "topic_results",
    "AddPartitionsToTxnTopicResult",
    Part("partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult", key="partition_index"),
)

# Refused item by item. Where there are two forms of a request, the one that is used has something in it.
ITEMIZED: dict[ApiKey, tuple[Part, ...]] = {
    ApiKey.PRODUCE: (
        _by_partition(
            "TopicProduceResponse",
            "PartitionProduceResponse",
            topics="topic_data",
            responses="responses",
            asked="partition_data",
            answered="partition_responses",
        ),
    ),
    ApiKey.OFFSET_COMMIT: (_by_partition("OffsetCommitResponseTopic", "OffsetCommitResponsePartition"),),
    ApiKey.TXN_OFFSET_COMMIT: (_by_partition("TxnOffsetCommitResponseTopic", "TxnOffsetCommitResponsePartition"),),
    ApiKey.DELETE_RECORDS: (_by_partition("DeleteRecordsTopicResult", "DeleteRecordsPartitionResult"),),
    ApiKey.CREATE_TOPICS: (Part("topics", "topics", "CreatableTopicResult"),),
    ApiKey.DELETE_TOPICS: (
        Part("topics", "responses", "DeletableTopicResult"),
        Part("topic_names", "responses", "DeletableTopicResult", key="name"),
    ),
    ApiKey.CREATE_PARTITIONS: (Part("topics", "results", "CreatePartitionsTopicResult"),),
    ApiKey.ALTER_CONFIGS: (Part("resources", "responses", "AlterConfigsResourceResponse"),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (Part("resources", "responses", "AlterConfigsResourceResponse"),),
    ApiKey.DELETE_GROUPS: (Part("groups_names", "results", "DeletableGroupResult", key="group_id"),),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        Part("entries", "entries", "ResponseEntryData", Part("entity", "entity", "ResponseEntityData")),
    ),
    ApiKey.ELECT_LEADERS: (
        Part(
            "topic_partitions",
            "replica_election_results",
            "ReplicaElectionResult",
            Part("partitions", "partition_result", "PartitionResult", key="partition_id"),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        Part(
            "markers",
            "markers",
            "WritableTxnMarkerResult",
            Part(
                "topics",
                "topics",
                "WritableTxnMarkerTopicResult",
                Part("partition_indexes", "partitions", "WritableTxnMarkerPartitionResult", key="partition_index"),
            ),
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Part("transactions", "results_by_transaction", "AddPartitionsToTxnResult", _TRANSACTION_TOPIC),
        _TRANSACTION_TOPIC._replace(asked="v3_and_below_topics", answered="results_by_topic_v3_and_below"),
    ),
}

# These change nothing, and only the broker knows what their answers are about.
READING = frozenset(
    {
        ApiKey.ALTER_REPLICA_LOG_DIRS,  # with one directory a replica can only stay where it is
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)

# Where requests name topics.
TOPIC_LISTS: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.PRODUCE: ("topic_data",),
    ApiKey.FETCH: ("topics",),
    ApiKey.LIST_OFFSETS: ("topics",),
    ApiKey.METADATA: ("topics",),
    ApiKey.OFFSET_COMMIT: ("topics",),
    ApiKey.OFFSET_FETCH: ("topics", "groups.topics"),
    ApiKey.TXN_OFFSET_COMMIT: ("topics",),
    ApiKey.DELETE_RECORDS: ("topics",),
    ApiKey.CREATE_TOPICS: ("topics",),
    ApiKey.DELETE_TOPICS: ("topics", "topic_names"),
    ApiKey.CREATE_PARTITIONS: ("topics",),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("topics",),
    ApiKey.DESCRIBE_PRODUCERS: ("topics",),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics",),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("v3_and_below_topics", "transactions.topics"),
}
GROUP_ERRORS_SINCE_VERSION = 2  # of OffsetFetch
ALL_OR_NOTHING = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN})  # what names one topic among others fails as a whole


def names_topic(key: ApiKey, broker: Broker, request: Message, topic: str) -> bool:
    """Whether the request is about this topic, among others or alone."""
    image = broker.controller.image
    if key is ApiKey.FETCH:
        return any(_name(wanted.key[0], image) == topic for wanted in _wanted(broker, request))
    lists = [found for path in TOPIC_LISTS[key] for found in _lists(request, path.split("."))]
    return any(found is None or any(topic_of(each, image) == topic for each in found) for found in lists)


def _lists(structure: Any, path: list[str]) -> Iterator[list[Any] | None]:
    found = getattr(structure, path[0])
    if len(path) == 1:
        yield found  # None stands for all topics
        return
    for each in found:
        yield from _lists(each, path[1:])


def topic_of(item: Any, image: MetadataImage) -> str | None:
    """The topic that a structure, or a plain name, names; None where it is about something else."""
    if isinstance(item, str):
        return item
    name = getattr(item, "topic", None) or getattr(item, "name", None)
    if name:
        return str(name)
    topic_id = getattr(item, "topic_id", ZERO_UUID)
    return None if topic_id == ZERO_UUID else _name(topic_id, image)


def _name(topic: str | bytes, image: MetadataImage) -> str | None:
    if isinstance(topic, str):
        return topic
    known = image.topics_by_id.get(topic)
    return None if known is None else known.name


class Refusal(NamedTuple):
    """The handler's place is taken by this, for one request."""

    key: ApiKey
    code: ErrorCode
    topic: str | None
    handle: Handler

    def answer(self, broker: Broker, context: RequestContext, request: Any) -> Answer:
        if self.key is ApiKey.FETCH:
            return self._fetch(broker, context, request)
        if self.key is ApiKey.OFFSET_FETCH and self.topic is None and context.api_version >= GROUP_ERRORS_SINCE_VERSION:
            return self._offset_fetch(request)
        if self.key in READING:
            if self.key is ApiKey.METADATA:
                request.allow_auto_topic_creation = False
            answered = self.handle(broker, context, request)
            return _then(answered, lambda response: self._spoiled(response, broker.controller.image))
        if self.key in ITEMIZED:
            return self._itemized(broker, context, request)
        refused: Message = _mirrored(apis.response_class(self.key), request, self.code)
        return refused

    def _itemized(self, broker: Broker, context: RequestContext, request: Any) -> Answer:
        if self.key is ApiKey.PRODUCE and request.acks == 0:
            raise CloseConnection(f"a test asked for {self.code.name}, and no answer is expected")
        image = broker.controller.image
        response_class = apis.response_class(self.key)
        structures = importlib.import_module(response_class.__module__)
        refused: dict[str, list[Any]] = {}
        is_left = False
        for part in ITEMIZED[self.key]:
            asked = getattr(request, part.asked) or []
            if self.topic is None or self.key in ALL_OR_NOTHING:
                concerned = asked
            else:
                concerned = [each for each in asked if topic_of(each, image) == self.topic]
                rest = [each for each in asked if topic_of(each, image) != self.topic]
                is_left = is_left or bool(rest)
                setattr(request, part.asked, rest)
            refused.setdefault(part.answered, []).extend(_items(structures, part, concerned, self.code))
        answered: Answer = self.handle(broker, context, request) if is_left else response_class()
        return _then(answered, lambda response: _extended(response, refused))

    def _offset_fetch(self, request: OffsetFetchRequest) -> Message:
        """Of a group as such; where a topic is meant, the error is that of its partitions."""
        from barnabas.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup

        groups = [OffsetFetchResponseGroup(group_id=each.group_id, error_code=self.code) for each in request.groups]
        return OffsetFetchResponse(error_code=self.code, groups=groups)

    def _spoiled(self, response: Message, image: MetadataImage) -> Message:
        if _spoil(response, self, image) == 0 and self.topic is None:
            _say(response, self.code)
        return response

    def _fetch(self, broker: Broker, context: RequestContext, request: Any) -> Answer:
        """Every partition of the session is told, though it has nothing new."""
        from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse
        from barnabas.server.replicas.fetch_answers import fetch_failed

        request.max_wait_ms = 0
        response = self.handle(broker, context, request)
        assert isinstance(response, FetchResponse)
        if response.error_code != ErrorCode.NONE:
            return response  # there is no such session
        image = broker.controller.image
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for wanted in broker.fetch_sessions.partitions(response.session_id) or _wanted(broker, request):
            topic, index = wanted.key
            if self.topic is not None and _name(topic, image) != self.topic:
                continue
            wanted.high_watermark_sent = -1  # so that it is told again once the error is gone
            found = topics.setdefault(topic, FetchableTopicResponse())
            if isinstance(topic, str):
                found.topic = topic
            else:
                found.topic_id = topic
            found.partitions.append(fetch_failed(index, self.code))
        response.responses = [each for each in response.responses if (each.topic or each.topic_id) not in topics]
        response.responses += topics.values()
        return response


def _wanted(broker: Broker, request: Any) -> list[Any]:
    """What a fetch names, and what its session has from before."""
    from barnabas.replication.fetch_session import FetchPartition

    known = [] if request.session_epoch in (0, -1) else broker.fetch_sessions.partitions(request.session_id)
    named = [
        FetchPartition((topic.topic or topic.topic_id, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return [*known, *named]


def _then(answered: Answer, change: Callable[[Message], Message]) -> Answer:
    if answered is None:
        return None
    if isinstance(answered, Message):
        return change(answered)

    async def later(awaited: Awaitable[Message]) -> Message:
        return change(await awaited)

    return later(answered)


def _extended(response: Message, refused: dict[str, list[Any]]) -> Message:
    for name, items in refused.items():
        getattr(response, name).extend(items)
    return response


def _items(structures: Any, part: Part, asked: list[Any], code: ErrorCode) -> list[Any]:
    found = []
    for each in asked:
        item = _mirrored(getattr(structures, part.structure), each, code)
        if part.key:
            setattr(item, part.key, each)
        if part.inner is not None:
            setattr(item, part.inner.answered, _items(structures, part.inner, getattr(each, part.inner.asked), code))
        found.append(item)
    return found


def _mirrored(kind: type[Any], asked: Any, code: ErrorCode) -> Any:
    """A structure of the response with what it shares with the request, and with the error."""
    item = kind()
    for name in kind.__slots__:
        value = getattr(asked, name, None)
        if isinstance(value, int | str | bytes):
            setattr(item, name, value)
    _say(item, code)
    return item


def _spoil(structure: Structure, refusal: Refusal, image: MetadataImage) -> int:
    """Says the error everywhere below; how often."""
    count = 0
    for name in structure.__slots__:
        value = getattr(structure, name)
        for each in value if isinstance(value, list) else ():
            if not isinstance(each, Structure):
                continue
            topic = topic_of(each, image) if refusal.topic is not None else None
            if topic is not None and topic != refusal.topic:
                continue
            count += _spoil(each, refusal, image) + _say(each, refusal.code)
    return count


def _say(structure: Any, code: ErrorCode) -> bool:
    for name in ("error_code", "partition_error_code"):
        if name in structure.__slots__:
            setattr(structure, name, code)
            return True
    return False
