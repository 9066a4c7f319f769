"""BrokerRegistration: a broker introduces itself, fenced, and gets its epoch.

Always holds: of two processes that claim one id, the one with a live session wins. A new incarnation is in sync
nowhere until it has caught up again; one that did not stop cleanly may have lost records that it had acknowledged, so
it is not eligible to lead either (KIP-966).
"""

from typing import TYPE_CHECKING

from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import METADATA_VERSION
from barnabas.errors import ErrorCode
from barnabas.metadata.image import DIRECTORIES_RESERVED_MAX, BrokerImage, MetadataImage
from barnabas.protocol.message import Message
from barnabas.types import Offset

if TYPE_CHECKING:
    from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from barnabas.protocol.messages.register_broker_record import RegisterBrokerRecord

_RESERVED_MAX = DIRECTORIES_RESERVED_MAX.to_bytes(16, "big")


def register_broker(
    electorate: Electorate,
    sessions: BrokerSessions,
    request: "BrokerRegistrationRequest",
    cluster_id: str,
    next_offset: Offset,
    now_ms: float,
) -> Decision["BrokerRegistrationResponse"]:
    """The same incarnation asking again amends what it said, and keeps its epoch and its state."""
    from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse

    before = electorate.image.brokers.get(request.broker_id)
    refusal = _refusal(electorate.image, request, cluster_id) or _other_is_alive(before, sessions, request, now_ms)
    if refusal is not None:
        return Decision([], BrokerRegistrationResponse(error_code=refusal.error))
    records: list[Message] = []
    record = registration_record(request)
    if before is not None and before.incarnation_id == request.incarnation_id:
        record.broker_epoch = before.epoch
        record.fenced = before.fenced
        record.in_controlled_shutdown = before.in_controlled_shutdown
    else:
        records += _end_of_incarnation(electorate, before, request)
        record.broker_epoch = next_offset + len(records)
        sessions.end(request.broker_id)
    return Decision([*records, record], BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def registration_record(request: "BrokerRegistrationRequest") -> "RegisterBrokerRecord":
    """Without epoch, and fenced."""
    from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _refusal(image: MetadataImage, request: "BrokerRegistrationRequest", cluster_id: str) -> Refusal | None:
    if request.cluster_id != cluster_id:
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.is_migrating_zk_broker:
        return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED)
    return _directory_refusal(image, request) or _feature_refusal(image, request)


def _other_is_alive(
    before: BrokerImage | None, sessions: BrokerSessions, request: "BrokerRegistrationRequest", now_ms: float
) -> Refusal | None:
    if before is None or before.incarnation_id == request.incarnation_id:
        return None
    if request.previous_broker_epoch == before.epoch:
        return None  # it wrote that epoch down when it ended in good order
    sessions.claimed(before.id, now_ms)
    alive = sessions.is_valid(before.id, before.epoch, now_ms)
    return Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION) if alive else None


def _directory_refusal(image: MetadataImage, request: "BrokerRegistrationRequest") -> Refusal | None:
    directories = request.log_dirs
    reserved = any(directory <= _RESERVED_MAX for directory in directories)
    taken = any(
        directory in other.directories
        for other in image.brokers.values()
        if other.id != request.broker_id
        for directory in directories
    )
    if not directories or reserved or taken or len(set(directories)) != len(directories):
        return Refusal(ErrorCode.INVALID_REGISTRATION)
    return None


def _feature_refusal(image: MetadataImage, request: "BrokerRegistrationRequest") -> Refusal | None:
    """A broker must be able to work at every level that the cluster is at."""
    known = {
        feature.name: range(feature.min_supported_version, feature.max_supported_version + 1)
        for feature in request.features
    }
    if METADATA_VERSION not in known:
        return Refusal(ErrorCode.INVALID_REGISTRATION)
    for name in {**known, **image.features}:
        if image.features.get(name, 0) not in known.get(name, (0,)):
            return Refusal(ErrorCode.UNSUPPORTED_VERSION)
    return None


def _end_of_incarnation(
    electorate: Electorate, before: BrokerImage | None, request: "BrokerRegistrationRequest"
) -> list[Message]:
    """What the going of the incarnation before this one, seen only now, means for its partitions."""
    broker_id = request.broker_id
    stopped_cleanly = before is not None and before.epoch == request.previous_broker_epoch
    if stopped_cleanly or not electorate.elr_enabled:
        return electorate.leader_changes(electorate.places(lambda state: broker_id in state.isr), removed=broker_id)
    places = electorate.places(lambda state: broker_id in state.isr or broker_id in state.eligible_leader_replicas)
    return electorate.leader_changes(places, uncleanly_stopped=broker_id)
