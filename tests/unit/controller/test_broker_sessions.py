"""Sessions of brokers: who is alive, who is gone, and how soon that is known."""

from images import broker, cluster

from barnabas.controller.broker_sessions import FETCH_TIMEOUT_MS, BrokerSessions

TIMEOUT_MS = 9_000


def sessions(*broker_ids: int) -> BrokerSessions:
    found = BrokerSessions(TIMEOUT_MS)
    for broker_id in broker_ids:
        found.contacted(broker_id, broker_id * 10, 5, 0)
    return found


def test_a_session_lasts_as_long_as_it_is_said() -> None:
    found = sessions(1)
    assert found.next_deadline_ms() == TIMEOUT_MS
    assert found.expired(TIMEOUT_MS) == []
    assert found.is_valid(1, 10, TIMEOUT_MS)
    assert found.expired(TIMEOUT_MS + 1) == [1]
    assert not found.is_valid(1, 10, TIMEOUT_MS + 1)


def test_a_heartbeat_renews_it() -> None:
    found = sessions(1)
    found.contacted(1, 10, 6, 8_000)
    assert found.expired(17_000) == []
    assert found.expired(17_001) == [1]


def test_who_is_gone_longest_comes_first() -> None:
    found = sessions(1, 2, 3)
    found.contacted(1, 10, 6, 20)
    found.contacted(3, 30, 6, 10)
    assert found.expired(TIMEOUT_MS + 21) == [2, 3, 1]
    found.end(3)
    assert found.expired(TIMEOUT_MS + 21) == [2, 1]


def test_a_lost_connection_proves_nothing() -> None:
    """The broker may be alive behind a network that drops connections, and hold its lease."""
    found = sessions(1, 2)
    found.connection_lost(1)
    assert found.next_deadline_ms() == TIMEOUT_MS
    assert found.expired(TIMEOUT_MS) == []


def test_another_process_ends_the_session_of_a_broker_whose_connection_is_lost() -> None:
    found = sessions(1)
    found.claimed(1, 1_000)  # it was heard, and nothing gave reason to doubt it
    assert found.next_deadline_ms() == TIMEOUT_MS
    found.connection_lost(1)
    found.claimed(1, 1_000)
    assert found.expired(1_450) == []
    assert found.expired(1_451) == [1]
    found.claimed(1, 8_990)  # which never makes it longer
    assert found.expired(1_451) == [1]
    found.contacted(1, 10, 6, 1_460)
    assert found.expired(1_460 + TIMEOUT_MS) == []


def test_a_connection_of_somebody_unknown_means_nothing() -> None:
    found = sessions()
    found.connection_lost(7)
    assert found.next_deadline_ms() is None
    assert found.expired(1e12) == []


def test_another_incarnation_begins_another_session() -> None:
    found = sessions(1)
    found.leaders_moved(1, 40)
    found.leaders_moved(1, 50)
    assert found.shutdown_offset(1) == 40
    found.contacted(1, 99, 6, 10)
    assert not found.is_valid(1, 10, 10)
    assert found.is_valid(1, 99, 10)
    assert found.shutdown_offset(1) is None


def test_a_new_controller_gives_everybody_a_whole_session_from_the_end_of_the_one_before() -> None:
    found = sessions(7)
    found.begin(cluster(broker(1), broker(2, fenced=True)), 50_000)
    assert found.next_deadline_ms() == 50_000 + TIMEOUT_MS + FETCH_TIMEOUT_MS
    assert found.expired(50_001 + TIMEOUT_MS + FETCH_TIMEOUT_MS) == [1]


def test_a_former_controller_is_given_the_rest_of_its_lease() -> None:
    found = sessions()
    found.begin(cluster(broker(1), broker(2)), 50_000, former_id=1)
    assert found.next_deadline_ms() == 51_000
    assert found.expired(51_001) == [1]
    found.contacted(1, 1, 6, 50_440)
    assert found.expired(50_000 + TIMEOUT_MS + FETCH_TIMEOUT_MS) == [1]
    found.begin(cluster(broker(1, fenced=True), broker(2)), 90_000, former_id=1)
    assert found.next_deadline_ms() == 90_000 + TIMEOUT_MS + FETCH_TIMEOUT_MS


def test_a_broker_has_caught_up_when_it_has_read_what_was_decided_before_it_was_heard() -> None:
    found = sessions()
    found.contacted(1, 10, 5, 0, end_offset=7)
    assert not found.has_caught_up(1)
    found.contacted(1, 10, 6, 0, end_offset=90)
    assert not found.has_caught_up(1)
    found.contacted(1, 10, 7, 0, end_offset=99)
    assert found.has_caught_up(1)


def test_how_far_all_active_brokers_have_read() -> None:
    found = sessions(1, 2, 3)
    found.contacted(2, 20, 3, 0)
    found.contacted(3, 30, 1, 0)
    assert found.lowest_offset(cluster(broker(1), broker(2), broker(3, fenced=True))) == 3
    assert found.lowest_offset(cluster(broker(1), broker(4))) == -1
    assert found.lowest_offset(cluster(broker(1, fenced=True))) is None


def test_who_listens_nowhere_any_more_is_gone_at_once() -> None:
    found = sessions(1)
    found.connection_lost(1)
    found.gone(1, 110)
    assert found.expired(111) == [1]


def test_who_was_heard_meanwhile_is_not_gone() -> None:
    found = sessions(1)
    found.gone(1, 100)  # nothing gave reason to doubt it
    found.connection_lost(1)
    found.contacted(1, 10, 6, 105)
    found.gone(1, 110)
    assert found.expired(TIMEOUT_MS) == []
