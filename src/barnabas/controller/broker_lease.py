"""Until when a broker may act as leader and coordinator: the broker's own view of its session with the controller.

    confirmed by another node    a session from the moment in which the heartbeat was sent
    confirmed by this very node  while it leads the quorum, and for a fetch timeout after a majority of voters was heard
    fenced, or unknown there     no longer

Always holds: the lease ends before the controller fences the broker for its silence, because the controller counts the
session from when the heartbeat arrived, which is later (docs/decisions/0006-leases.md). So where another broker leads
because this one was fenced, this one has stopped to answer.
Does not know: requests, partitions. Times are milliseconds of a clock that never goes back.
"""

from math import inf


class BrokerLease:
    def __init__(self, *, session_ms: float, fetch_timeout_ms: float) -> None:
        self._session_ms = session_ms
        self._fetch_timeout_ms = fetch_timeout_ms
        self._sent_ms = -inf  # when the heartbeat was sent that was confirmed last
        self._by_itself = False  # whether this node was the controller that confirmed it

    # Events

    def confirmed(self, sent_ms: float, *, by_itself: bool) -> None:
        """The controller holds this broker to be alive, and has not fenced it."""
        if sent_ms >= self._sent_ms:
            self._sent_ms = sent_ms
            self._by_itself = by_itself

    def refused(self) -> None:
        """The controller has fenced this broker, or does not know its epoch any more."""
        self._sent_ms = -inf

    # Questions

    def holds(self, now_ms: float, majority_heard_ms: float | None) -> bool:
        """`majority_heard_ms`: since when the quorum that this node leads has been heard; None where it leads none."""
        if majority_heard_ms is not None and now_ms > majority_heard_ms + self._fetch_timeout_ms:
            return False  # its voters may have elected another controller, which gives it less than a session
        if majority_heard_ms is None and self._by_itself:
            return False
        return now_ms <= self._sent_ms + self._session_ms
