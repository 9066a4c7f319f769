"""The lease of a broker: until when it may act as leader and coordinator."""

from math import inf

from barnabas.controller.broker_lease import BrokerLease
from barnabas.controller.broker_sessions import BrokerSessions

SESSION_MS, FETCH_MS = 9_000, 2_000


def lease() -> BrokerLease:
    return BrokerLease(session_ms=SESSION_MS, fetch_timeout_ms=FETCH_MS)


def test_there_is_none_before_a_heartbeat_is_confirmed() -> None:
    assert not lease().holds(0, None)
    assert not lease().holds(0, inf)


def test_it_lasts_a_session_from_when_the_heartbeat_was_sent() -> None:
    found = lease()
    found.confirmed(1_000, by_itself=False)
    assert found.holds(10_000, None)
    assert not found.holds(10_001, None)


def test_it_ends_before_the_controller_fences_however_long_a_heartbeat_was_on_its_way() -> None:
    for under_way_ms in (0, 10, 4_000):
        found, sessions = lease(), BrokerSessions(SESSION_MS)
        sessions.contacted(1, 10, 5, 1_000 + under_way_ms)
        found.confirmed(1_000, by_itself=False)
        fenced_ms = next(now_ms for now_ms in range(1_000, 30_000) if sessions.expired(now_ms))
        assert not found.holds(fenced_ms, None)


def test_an_answer_that_overtakes_another_does_not_shorten_it() -> None:
    found = lease()
    found.confirmed(2_000, by_itself=False)
    found.confirmed(1_000, by_itself=True)
    assert found.holds(11_000, None)


def test_a_broker_that_is_fenced_has_none() -> None:
    found = lease()
    found.confirmed(1_000, by_itself=False)
    found.refused()
    assert not found.holds(1_000, None)


def test_a_controller_has_it_for_a_fetch_timeout_after_a_majority_was_heard() -> None:
    found = lease()
    found.confirmed(1_000, by_itself=True)
    assert found.holds(3_000, 1_000)
    assert not found.holds(3_001, 1_000)
    assert found.holds(3_001, 1_500)
    assert not found.holds(10_001, 10_000)  # nor without heartbeats


def test_the_only_voter_is_always_heard() -> None:
    found = lease()
    found.confirmed(1_000, by_itself=True)
    assert found.holds(10_000, inf)


def test_what_it_confirmed_to_itself_counts_only_while_it_is_the_controller() -> None:
    """The next one may have been elected at once, and fences it soon."""
    found = lease()
    found.confirmed(1_000, by_itself=True)
    assert not found.holds(1_000, None)
    found.confirmed(1_100, by_itself=False)
    assert found.holds(1_100, None)
