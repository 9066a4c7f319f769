"""Which brokers are alive, as the active controller sees it: one session each, renewed by every heartbeat.

This is soft state: it is in no log, and a controller that becomes the active one gives every unfenced broker a whole
session anew, except for the one whose controller was the active one before. Times are milliseconds of a clock that
never goes back.
Always holds: no session ends while its broker may still hold its lease (`broker_lease`), which is as long and counts
from an earlier moment. So a session ends early only where the broker's process is known to be dead: its host says that
nobody listens there any more, or another process claims its id while its connection is broken. A connection that breaks
proves nothing by itself. A crash of a process therefore costs milliseconds, one of a host a session.
A former controller may have confirmed heartbeats until it resigned, which may be later than the election of its
successor. Every session begins longer by that. Its own broker has no lease any more when a majority of voters has not
been heard for a fetch timeout, so it is given only the rest of that time: if it lives it hears of its successor and
sends a heartbeat at once.
Does not know: records. `lifecycle` decides what an expired session means.
"""

from barnabas.metadata.image import MetadataImage
from barnabas.types import NO_LEADER, BrokerId, Offset

SESSION_TIMEOUT_MS = 9_000  # broker.session.timeout.ms unless it is set
FETCH_TIMEOUT_MS = 2_000  # controller.quorum.fetch.timeout.ms unless it is set
# Of a session, left to a broker that was not heard when another process claims its id. With the default 450 ms: many
# times what connecting takes, also under load, and little enough that a restart is a short pause.
CLAIMED_FRACTION = 20
NO_OFFSET: Offset = -1


class Session:
    __slots__ = (
        "begin_offset",
        "broker_epoch",
        "deadline_ms",
        "doubted",
        "heard",
        "metadata_offset",
        "shutdown_offset",
    )

    def __init__(self, broker_epoch: int, deadline_ms: float, begin_offset: Offset = NO_OFFSET) -> None:
        self.begin_offset = begin_offset  # of the metadata, when the session began
        self.broker_epoch = broker_epoch
        self.deadline_ms = deadline_ms
        self.doubted = False  # its connection broke, and nothing was heard of it since
        self.heard = False  # by this controller; else it only assumes that the broker lives
        self.metadata_offset = NO_OFFSET  # how far the broker has read the metadata log, as it last said
        self.shutdown_offset: Offset | None = None  # at which its leaders were moved away, once they were


class BrokerSessions:
    def __init__(self, timeout_ms: int = SESSION_TIMEOUT_MS, fetch_timeout_ms: int = FETCH_TIMEOUT_MS) -> None:
        self.timeout_ms = timeout_ms
        self._fetch_timeout_ms = fetch_timeout_ms
        self._sessions: dict[BrokerId, Session] = {}

    # Events

    def begin(self, image: MetadataImage, now_ms: float, former_id: BrokerId = NO_LEADER) -> None:
        """This controller became the active one: nobody has missed a heartbeat yet. `former_id` was it before."""
        # Voters elect when they have missed their leader for a fetch timeout; it resigns after one and a half. The rest
        # is for what was on its way meanwhile.
        deadline_ms = now_ms + self.timeout_ms + self._fetch_timeout_ms
        self._sessions = {
            broker.id: Session(broker.epoch, deadline_ms) for broker in image.brokers.values() if not broker.fenced
        }
        self.connection_lost(former_id)
        self._shorten(former_id, now_ms + self._fetch_timeout_ms / 2)

    def contacted(
        self,
        broker_id: BrokerId,
        broker_epoch: int,
        metadata_offset: Offset,
        now_ms: float,
        *,
        end_offset: Offset = NO_OFFSET,
    ) -> None:
        """`end_offset`: of the last record that the controller has decided."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = Session(broker_epoch, now_ms, end_offset)
        session.deadline_ms = now_ms + self.timeout_ms
        session.doubted = False
        session.heard = True
        session.metadata_offset = metadata_offset

    def connection_lost(self, broker_id: BrokerId) -> None:
        """A reason to ask whether the broker lives, and no answer."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.doubted = True

    def gone(self, broker_id: BrokerId, now_ms: float) -> None:
        """Nothing listens any more where the broker did: its process is dead, unless it was heard meanwhile."""
        session = self._sessions.get(broker_id)
        if session is not None and session.doubted:
            self._shorten(broker_id, now_ms)

    def claimed(self, broker_id: BrokerId, now_ms: float) -> None:
        """Another process says that it is this broker. One that was only assumed to live, or whose connection broke,
        must speak up: after all of a cluster has crashed, nobody else will ever end these sessions early."""
        session = self._sessions.get(broker_id)
        if session is not None and (session.doubted or not session.heard):
            self._shorten(broker_id, now_ms + self.timeout_ms / CLAIMED_FRACTION)

    def _shorten(self, broker_id: BrokerId, deadline_ms: float) -> None:
        session = self._sessions.get(broker_id)
        if session is not None:
            session.deadline_ms = min(session.deadline_ms, deadline_ms)

    def leaders_moved(self, broker_id: BrokerId, offset: Offset) -> None:
        """The broker shuts down and leads nothing from this offset on; what it was told first stands."""
        session = self._sessions[broker_id]
        if session.shutdown_offset is None:
            session.shutdown_offset = offset

    def end(self, broker_id: BrokerId) -> None:
        self._sessions.pop(broker_id, None)

    # Questions

    def is_valid(self, broker_id: BrokerId, broker_epoch: int, now_ms: float) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.broker_epoch == broker_epoch and now_ms <= session.deadline_ms

    def expired(self, now_ms: float) -> list[BrokerId]:
        """Those whose session is over, the longest gone first."""
        over = [(session.deadline_ms, id) for id, session in self._sessions.items() if session.deadline_ms < now_ms]
        return [broker_id for _deadline_ms, broker_id in sorted(over)]

    def next_deadline_ms(self) -> float | None:
        """When the next session ends, if no heartbeat comes."""
        return min((session.deadline_ms for session in self._sessions.values()), default=None)

    def has_caught_up(self, broker_id: BrokerId) -> bool:
        """Whether a broker has read all that was decided before it was heard. One that was fenced while it was away
        knows then that others lead what it led."""
        session = self._sessions[broker_id]
        return session.metadata_offset >= session.begin_offset

    def shutdown_offset(self, broker_id: BrokerId) -> Offset | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def lowest_offset(self, image: MetadataImage) -> Offset | None:
        """How far all active brokers have read the metadata log; None where there are none."""
        active = [broker.id for broker in image.brokers.values() if broker.active]
        sessions = [self._sessions.get(broker_id) for broker_id in active]
        return min((NO_OFFSET if each is None else each.metadata_offset for each in sessions), default=None)
