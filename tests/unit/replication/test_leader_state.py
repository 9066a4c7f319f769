"""The leader's bookkeeping: watermark and in-sync replicas, as offsets and moments come in."""

from random import Random
from typing import Any

import pytest

from barnabas.replication.leader import LeaderState, Progress

LAG_MS = 100


def leader(
    in_sync: tuple[int, ...] = (1, 2, 3), end_offset: int = 0, high_watermark: int = 0, **settings: Any
) -> LeaderState:
    return LeaderState(
        leader_id=1,
        leader_epoch=4,
        replicas=(1, 2, 3),
        in_sync=in_sync,
        end_offset=end_offset,
        high_watermark=high_watermark,
        lag_ms_max=LAG_MS,
        now_ms=0,
        **settings,
    )


def test_the_slowest_in_sync_replica_holds_the_watermark() -> None:
    state = leader()
    assert state.appended(5, 0) == Progress(0)
    assert state.fetched(2, 5, 1) == Progress(0)
    assert state.fetched(3, 3, 1) == Progress(3)
    assert state.fetched(3, 5, 2) == Progress(5)


def test_who_is_not_in_sync_does_not_hold_it() -> None:
    state = leader(in_sync=(1, 2))
    state.appended(5, 0)
    assert state.fetched(2, 5, 1) == Progress(5)


def test_a_leader_alone_commits_what_it_appends() -> None:
    assert leader(in_sync=(1,)).appended(7, 0) == Progress(7)


def test_a_new_leader_waits_for_its_followers_before_it_commits_anything_more() -> None:
    state = leader(end_offset=10, high_watermark=6)
    assert state.appended(12, 0) == Progress(6)
    assert state.fetched(2, 12, 1) == Progress(6)
    assert state.fetched(3, 11, 1) == Progress(11)


def test_a_silent_replica_falls_out_of_sync_only_when_the_controller_says_so() -> None:
    state = leader()
    state.appended(5, 0)
    state.fetched(2, 5, 50)
    assert state.tick(LAG_MS - 1) == Progress(0)
    assert state.tick(LAG_MS) == Progress(0, (1, 2))
    assert state.in_sync == (1, 2, 3)
    assert state.tick(LAG_MS + 50) == Progress(0), "asked once"
    assert state.confirmed((1, 2)) == Progress(5)


def test_a_refused_change_is_asked_for_again() -> None:
    state = leader()
    state.appended(5, 0)
    assert state.tick(LAG_MS).in_sync_wanted == (1,)
    state.refused()
    assert state.tick(LAG_MS).in_sync_wanted == (1,)


def test_an_idle_partition_has_no_deadline() -> None:
    state = leader()
    state.appended(5, 0)
    state.fetched(2, 5, 1)
    state.fetched(3, 5, 1)
    assert state.tick(10 * LAG_MS) == Progress(5), "who has everything stays in sync without fetching"


def test_a_replica_that_is_always_a_little_behind_stays_in_sync() -> None:
    """It had all that there was at its last fetch, which is what counts."""
    state = leader(in_sync=(1, 2))
    for now_ms in range(0, 1000, 50):
        state.appended(state.end_offset + 10, 0)
        state.fetched(2, state.end_offset - 10, now_ms)
        assert state.tick(now_ms).in_sync_wanted is None


def test_a_replica_that_caught_up_is_proposed_and_counts_from_then_on() -> None:
    state = leader(in_sync=(1, 2))
    state.appended(5, 0)
    state.fetched(2, 5, 1)
    assert state.fetched(3, 4, 1) == Progress(5), "below the watermark"
    assert state.fetched(3, 5, 2) == Progress(5, (1, 2, 3))
    state.appended(8, 0)
    assert state.fetched(2, 8, 3) == Progress(5), "the one that may be in sync already holds the watermark"
    assert state.refused() == Progress(5), "it has caught up, and is about to join"
    assert state.tick(3) == Progress(5, (1, 2, 3)), "so it is asked for again"


def test_a_replica_that_the_controller_would_not_take_holds_nothing_up() -> None:
    fenced = {3: True}
    state = leader(in_sync=(1, 2), is_eligible=lambda replica, _epoch: not fenced.get(replica, False))
    state.appended(5, 0)
    state.fetched(2, 5, 1)
    assert state.fetched(3, 5, 2) == Progress(5)
    state.appended(8, 3)
    assert state.fetched(2, 8, 4) == Progress(8)
    assert state.fetched(3, 8, 5) == Progress(8)
    fenced.clear()
    assert state.tick(6) == Progress(8, (1, 2, 3)), "though it has not fetched again"


def test_an_incarnation_that_has_ended_does_not_count() -> None:
    state = leader(in_sync=(1, 2))
    state.appended(5, 0)
    assert state.fetched(2, 3, 1, broker_epoch=7) == Progress(3)
    assert state.fetched(2, 5, 1, broker_epoch=6) is None
    assert state.broker_epoch_of(2) == 7


def test_too_few_in_sync_commit_nothing() -> None:
    state = leader(in_sync=(1, 2), min_in_sync=2)
    state.fetched(2, 0, 0)
    state.appended(5, 0)
    assert state.tick(LAG_MS) == Progress(0, (1,))
    assert state.confirmed((1,)) == Progress(0), "it is slow, whatever it had"
    assert state.appended(6, LAG_MS + 1) == Progress(0)
    assert state.tick(2 * LAG_MS) == Progress(0)
    assert state.fetched(2, 6, 2 * LAG_MS) == Progress(0, (1, 2))
    assert state.confirmed((1, 2)) == Progress(6)


def test_a_long_idle_replica_does_not_lag_by_the_first_append() -> None:
    state = leader(in_sync=(1, 2))
    state.fetched(2, 0, 0)
    state.appended(1, 10 * LAG_MS)
    assert state.tick(10 * LAG_MS + 1) == Progress(0)
    assert state.tick(11 * LAG_MS) == Progress(0, (1,))


def test_a_replica_below_the_start_of_the_epoch_may_not_join() -> None:
    """It may hold records that this leader does not have; it has to cut them first."""
    state = leader(in_sync=(1, 2), end_offset=10, high_watermark=4)
    assert state.fetched(3, 9, 1) == Progress(4)
    assert state.fetched(3, 10, 1) == Progress(4, (1, 2, 3))


def test_a_stranger_is_refused() -> None:
    assert leader().fetched(9, 0, 0) is None


@pytest.mark.parametrize("seed", range(30))
def test_chance(seed: int) -> None:
    """The watermark never falls and never passes a replica that is, or may be, in sync."""
    chance = Random(seed)
    state = leader(in_sync=(1, 2, 3))
    held = {2: 0, 3: 0}
    state.fetched(2, 0, 0)
    state.fetched(3, 0, 0)
    watermark = 0
    for now_ms in range(0, 4000, 10):
        progress: Progress | None
        match chance.randrange(5):
            case 0:
                progress = state.appended(state.end_offset + chance.randrange(4), 0)
            case 1 | 2:
                replica = chance.choice((2, 3))
                held[replica] = chance.randint(held[replica], state.end_offset)
                progress = state.fetched(replica, held[replica], now_ms)
            case 3:
                progress = state.tick(now_ms)
            case _:
                wanted = state.in_sync_wanted
                progress = state.refused() if wanted is None or chance.random() < 0.3 else state.confirmed(wanted)
        assert progress is not None
        assert progress.high_watermark >= watermark
        watermark = progress.high_watermark
        may_be_in_sync = {*state.in_sync, *(state.in_sync_wanted or ())}
        assert all(watermark <= (state.end_offset if each == 1 else state.range_of(each)[1]) for each in may_be_in_sync)


def test_who_caught_up_while_another_was_asked_for_is_asked_for_next() -> None:
    state = leader(in_sync=(1,))
    assert state.fetched(2, 0, 1) == Progress(0, (1, 2))
    assert state.fetched(3, 0, 2) == Progress(0)
    assert state.confirmed((1, 2)) == Progress(0, (1, 2, 3)), "it has everything, and would not fetch again"
    assert state.confirmed((1, 2, 3)) == Progress(0)


def test_the_low_watermark_is_that_of_the_live() -> None:
    state = leader(in_sync=(1, 2, 3))
    assert state.low_watermark(4, lambda _broker: True) == -1
    state.fetched(2, 5, 1, log_start_offset=4)
    state.fetched(3, 5, 1, log_start_offset=2)
    assert state.low_watermark(4, lambda _broker: True) == 2
    assert state.low_watermark(4, lambda broker: broker != 3) == 4
