"""Brokers of a cluster come, go and fail: registration, heartbeats, fencing, controlled shutdown, unregistration.

    registers → FENCED ⇄ UNFENCED → CONTROLLED_SHUTDOWN → SHUTDOWN_NOW (fenced: the process may end)

Always holds: a broker's epoch is the offset of the record that registered it, so a later incarnation has the larger
one, and a broker that has read that far knows of itself. A fenced broker leads nothing and is in sync nowhere. It is
unfenced once it has read all that was decided before it was heard again: a confirmed heartbeat lets it act as leader,
so it must know what it does not lead any more. A broker that shuts down goes only when every active broker knows the
new leaders of what it led.
Does not know: when to look for dead brokers; the shell asks `BrokerSessions.next_deadline_ms`.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.controller.brokers import FENCE, UNFENCE, check_epoch
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.electorate import Electorate
from barnabas.errors import ErrorCode
from barnabas.metadata.image import BrokerImage, PartitionImage
from barnabas.protocol.message import Message
from barnabas.types import NO_LEADER, BrokerId, Offset, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

SHUTTING_DOWN = 1  # as BrokerRegistrationChangeRecord has it


class BrokerState(Enum):
    FENCED = 0
    UNFENCED = 1
    CONTROLLED_SHUTDOWN = 2
    SHUTDOWN_NOW = 3


# Heartbeats


def heartbeat(
    electorate: Electorate,
    sessions: BrokerSessions,
    request: "BrokerHeartbeatRequest",
    next_offset: Offset,
    now_ms: float,
) -> Decision["BrokerHeartbeatResponse"]:
    from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse

    image = electorate.image
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refusal):
        return Decision([], BrokerHeartbeatResponse(error_code=broker.error))
    sessions.contacted(broker.id, broker.epoch, request.current_metadata_offset, now_ms, end_offset=image.offset)
    state = next_state(electorate, sessions, broker, request)
    records = _transition(electorate, broker, state)
    records += _lost_directories(electorate.after(records), broker, request.offline_log_dirs)
    records += _cordoned_directories(broker, request.cordoned_log_dirs)
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        sessions.leaders_moved(broker.id, next_offset + len(records) - 1)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response)


def next_state(
    electorate: Electorate, sessions: BrokerSessions, broker: BrokerImage, request: "BrokerHeartbeatRequest"
) -> BrokerState:
    """What becomes of the broker that sent this heartbeat."""
    if broker.fenced:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        knows_itself = request.current_metadata_offset >= broker.epoch and sessions.has_caught_up(broker.id)
        return BrokerState.UNFENCED if knows_itself and not request.want_fence else BrokerState.FENCED
    if broker.in_controlled_shutdown:
        if _leads(electorate, broker) or not _is_known_to_have_left(electorate, sessions, broker):
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if request.want_shut_down:
        return BrokerState.CONTROLLED_SHUTDOWN if _leads(electorate, broker) else BrokerState.SHUTDOWN_NOW
    return BrokerState.UNFENCED


def _leads(electorate: Electorate, broker: BrokerImage) -> bool:
    return any(True for _ in electorate.places(lambda state: state.leader == broker.id))


def _is_known_to_have_left(electorate: Electorate, sessions: BrokerSessions, broker: BrokerImage) -> bool:
    """Whether all active brokers have read that others lead now. After a change of controller that begins anew."""
    left_at = sessions.shutdown_offset(broker.id)
    lowest = sessions.lowest_offset(electorate.image)
    return lowest is None or (left_at is not None and left_at <= lowest)


def _transition(electorate: Electorate, broker: BrokerImage, state: BrokerState) -> list[Message]:
    if state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW):
        return [] if broker.fenced else fence(electorate, broker)
    if state is BrokerState.UNFENCED:
        return unfence(electorate, broker) if broker.fenced else []
    return [] if broker.in_controlled_shutdown else _begin_controlled_shutdown(electorate, broker)


def fence(electorate: Electorate, broker: BrokerImage) -> list[Message]:
    """Its partitions go to others first."""
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

    in_sync = electorate.places(lambda state: broker.id in state.isr)
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)
    return [*electorate.leader_changes(in_sync, removed=broker.id), change]


def unfence(electorate: Electorate, broker: BrokerImage) -> list[Message]:
    """It leads what nobody leads and it may lead."""
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

    leaderless = electorate.places(lambda state: state.leader == NO_LEADER)
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    return [change, *electorate.leader_changes(leaderless, added=broker.id)]


def _begin_controlled_shutdown(electorate: Electorate, broker: BrokerImage) -> list[Message]:
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

    in_sync = electorate.places(lambda state: broker.id in state.isr)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=SHUTTING_DOWN
    )
    return [change, *electorate.leader_changes(in_sync, removed=broker.id)]


def _lost_directories(electorate: Electorate, broker: BrokerImage, offline: Sequence[Uuid]) -> list[Message]:
    """Directories that failed take their replicas with them; the broker stays."""
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

    lost = [directory for directory in broker.directories if directory in offline]
    if not lost:
        return []

    def lies_there(state: PartitionImage) -> bool:
        return broker.id in state.replicas and state.directory(broker.id) in lost

    left = [directory for directory in broker.directories if directory not in lost]
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
    return [*electorate.leader_changes(electorate.places(lies_there), removed=broker.id), change]


def _cordoned_directories(broker: BrokerImage, cordoned: Sequence[Uuid] | None) -> list[Message]:
    """Directories that take no new replicas. None: the broker does not say."""
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

    if cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned))
    ]


# Without being asked, and by whoever administers the cluster


def fence_expired(electorate: Electorate, sessions: BrokerSessions, now_ms: float) -> Decision[BrokerId | None]:
    """Fences the one that has been gone longest; the response is its id, None where all are there.

    One at a time, so that each is decided over what the one before it left. Its session ends either way: if the
    records are lost with this controller, the next one begins all sessions anew.
    """
    for broker_id in sessions.expired(now_ms):
        sessions.end(broker_id)
        broker = electorate.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            return Decision(fence(electorate, broker), broker_id)
    return Decision([], None)


def unregister_broker(
    electorate: Electorate, sessions: BrokerSessions, broker_id: BrokerId
) -> Decision[Refusal | None]:
    """The response is None where it is done. Its replicas stay assigned: it may register again."""
    from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

    broker = electorate.image.brokers.get(broker_id)
    if broker is None:
        words = f"Broker {broker_id} is not registered."
        return Decision([], Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, words))
    sessions.end(broker_id)
    places = electorate.places(lambda state: broker_id in state.isr or broker_id in state.eligible_leader_replicas)
    records = electorate.leader_changes(places, removed=broker_id)
    return Decision([*records, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)], None)
