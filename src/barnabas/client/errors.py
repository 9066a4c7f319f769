"""What can go wrong for whoever uses a client, as exceptions with Kafka's code.

A class of its own has what callers treat in a way of its own; everything else is a KafkaError. `error_of` makes the
right one of a code on the wire. Always holds: a message says what happened and, where something can be done, what.
`retriable` says whether the same call may succeed later; clients have by then tried for as long as they were told to.
Does not know: who was asked what.
"""

from typing import ClassVar

from barnabas.errors import ErrorCode

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BrokersUnreachableError",
    "BufferExhaustedError",
    "ClientClosedError",
    "CommitFailedError",
    "CoordinatorError",
    "GroupFencedError",
    "IllegalStateError",
    "InvalidTopicError",
    "InvalidTransactionStateError",
    "KafkaError",
    "KafkaTimeoutError",
    "LocalError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "ProducerFencedError",
    "RecordTooLargeError",
    "StaleMetadataError",
    "TlsError",
    "TopicExistsError",
    "TransactionAbortableError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "error_of",
]


class KafkaError(Exception):
    """`code` is Kafka's, `message` is for people."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)  # both, so that pickling works: errors cross processes
        self.code = code
        self.message = message

    @property
    def retriable(self) -> bool:
        return self.code.retriable

    def __str__(self) -> str:
        return f"{self.message} ({self.code.name})"


class LocalError(KafkaError):
    """The client itself found out, and no broker said so: the message is enough, the code follows from the class."""

    CODE: ClassVar[ErrorCode]

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)  # what pickling gives to the class again
        self.code = self.CODE
        self.message = message

    def __str__(self) -> str:
        return self.message


class KafkaTimeoutError(LocalError):
    """It did not happen within the time given. Whether it happens yet is not known."""

    CODE = ErrorCode.REQUEST_TIMED_OUT


class BrokersUnreachableError(KafkaTimeoutError):
    """No broker could be reached at any of the bootstrap servers."""


class BufferExhaustedError(KafkaTimeoutError):
    """No room for a record within max_block_ms: records are produced faster than brokers take them."""


class IllegalStateError(LocalError):
    """The client cannot do this: a call is missing before it or came too late, or no request can hold the value."""

    CODE = ErrorCode.INVALID_REQUEST


class ClientClosedError(IllegalStateError):
    """The client was closed, or not started."""


class UnsupportedVersionError(KafkaError):
    """The broker is too old, or too new, for what was asked of it."""


class StaleMetadataError(KafkaError):
    """The leader is somewhere else than this client thought. Retriable."""


class UnknownTopicError(StaleMetadataError):
    """There is no such topic or partition, as far as the broker knows."""


class TopicExistsError(KafkaError):
    """There is a topic of that name."""


class InvalidTopicError(KafkaError):
    """The name is not one that a topic can have."""


class AuthenticationError(KafkaError):
    """The broker does not know this client, or this client does not trust the broker. Never tried again."""

    @property
    def retriable(self) -> bool:
        return False


class TlsError(AuthenticationError, LocalError):
    """Client and broker do not agree on TLS: a certificate is not trusted, or one of them does not speak it."""

    CODE = ErrorCode.NETWORK_EXCEPTION


class AuthorizationError(KafkaError):
    """The principal of this client may not do that."""


class CoordinatorError(KafkaError):
    """The coordinator is somewhere else, or does not answer yet. Retriable."""


class RecordTooLargeError(KafkaError):
    """The record is larger than max_request_size of the client or max.message.bytes of the topic."""


class OffsetOutOfRangeError(KafkaError):
    """The partition has no record at that offset any more, or yet."""


class OutOfOrderSequenceError(KafkaError):
    """The broker misses records before these: some were lost, by the broker or by a producer of the same id."""


class ProducerFencedError(KafkaError):
    """Another producer has taken over the transactional id. Close this one."""


class InvalidTransactionStateError(KafkaError):
    """The transaction is not in a state for that; perhaps it timed out and was aborted."""


class TransactionAbortableError(KafkaError):
    """The transaction cannot be committed. Abort it; then another may begin."""


class CommitFailedError(KafkaError):
    """The group has given the partitions to others. Poll, so that this member takes part in it again."""


class GroupFencedError(KafkaError):
    """Another member has the same group instance id. Close this one."""


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.INCONSISTENT_TOPIC_ID: UnknownTopicError,
    ErrorCode.LEADER_NOT_AVAILABLE: StaleMetadataError,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: StaleMetadataError,
    ErrorCode.REPLICA_NOT_AVAILABLE: StaleMetadataError,
    ErrorCode.FENCED_LEADER_EPOCH: StaleMetadataError,
    ErrorCode.UNKNOWN_LEADER_EPOCH: StaleMetadataError,
    ErrorCode.LISTENER_NOT_FOUND: StaleMetadataError,
    ErrorCode.KAFKA_STORAGE_ERROR: StaleMetadataError,
    ErrorCode.NOT_CONTROLLER: StaleMetadataError,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorError,
    ErrorCode.NOT_COORDINATOR: CoordinatorError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersionError,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequenceError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_TXN_STATE: InvalidTransactionStateError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortableError,
    ErrorCode.ILLEGAL_GENERATION: CommitFailedError,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailedError,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitFailedError,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailedError,
    ErrorCode.FENCED_MEMBER_EPOCH: CommitFailedError,
    ErrorCode.FENCED_INSTANCE_ID: GroupFencedError,
}

# What to do, for codes whose name does not say it.
_ADVICE: dict[ErrorCode, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition; create it, or check its name",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of that name exists; use it, or delete it first",
    ErrorCode.MESSAGE_TOO_LARGE: "the record is too large for the topic; raise its max.message.bytes, or send less",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for; start the brokers",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this principal may not use the topic; ask for an ACL",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this principal may not use the group; ask for an ACL",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this principal may not do that in the cluster; ask for an ACL",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this principal may not use the transactional id; ask for an ACL",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker misses records that were sent before these",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer took over this transactional id, or its transaction timed out",
    ErrorCode.PRODUCER_FENCED: "another producer has taken over this transactional id; close this one",
    ErrorCode.INVALID_TXN_STATE: "the transaction is not in a state for that; perhaps it timed out and was aborted",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "transaction_timeout_ms is more than the broker's transaction.max.timeout.ms; lower it"
    ),
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction cannot be committed; abort it and begin another",
    ErrorCode.INVALID_REPLICATION_FACTOR: "more replicas are asked for than there are brokers, or fewer than one",
    ErrorCode.INVALID_TIMESTAMP: "the record's timestamp is too far from the broker's clock, or is not allowed",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know that compression; choose another",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition has no such offset; seek, or set auto_offset_reset",
    ErrorCode.ILLEGAL_GENERATION: "the group went on without this member; poll again before committing",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group went on without this member; poll more often, or raise the timeouts",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing; poll, then commit again",
    ErrorCode.FENCED_INSTANCE_ID: "another member has the same group_instance_id; give each its own",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms is less than the broker's group.min.session.timeout.ms, or more than "
        "group.max.session.timeout.ms"
    ),
    ErrorCode.INVALID_GROUP_ID: "a group's name must not be empty",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's group.max.size allows",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group has members that read the topic; stop them first",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata is larger than the broker's offset.metadata.max.bytes",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not know this request or a field of it; it may be too old",
}


def known_code(code: int) -> ErrorCode:
    """A code that this client does not know, of a newer broker, is an error like others."""
    return ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR


def error_of(code: int, message: str | None = None, *, about: str = "") -> KafkaError:
    """The exception for a code that is not NONE. `about` names the topic, group or id; `message` is the broker's."""
    known = known_code(code)
    assert known != ErrorCode.NONE
    words = message or _ADVICE.get(known) or known.name.lower().replace("_", " ")
    if known == ErrorCode.UNKNOWN_SERVER_ERROR and not message:
        words = f"the broker failed with code {code}; its log says more"
    return _CLASSES.get(known, KafkaError)(known, f"{about}: {words}" if about else words)
