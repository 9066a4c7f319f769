from hypothesis import given
from hypothesis import strategies as st

from barnabas.groups.timers import TimerKey, TimerKind, Timers


def key(name: str) -> TimerKey:
    return TimerKey(TimerKind.SESSION, "g", name)


def drain(timers: Timers, now_ms: int) -> list[str]:
    found = []
    while (due := timers.due(now_ms)) is not None:
        found.append(due.member_id)
    return found


def test_the_earliest_comes_first_and_equals_in_the_order_of_setting() -> None:
    timers = Timers()
    for name, deadline_ms in (("late", 30), ("b", 10), ("a", 10)):
        timers.set(key(name), deadline_ms)
    assert timers.next_deadline_ms() == 10
    assert drain(timers, 9) == []
    assert drain(timers, 10) == ["b", "a"]
    assert drain(timers, 100) == ["late"]
    assert timers.next_deadline_ms() is None


def test_a_deadline_may_be_put_off_and_brought_forward() -> None:
    timers = Timers()
    timers.set(key("a"), 10)
    timers.set(key("a"), 50)
    assert drain(timers, 49) == []
    timers.set(key("a"), 20)
    assert drain(timers, 20) == ["a"]
    assert drain(timers, 100) == []


def test_a_cancelled_timer_is_not_due() -> None:
    timers = Timers()
    timers.set(key("a"), 10)
    timers.cancel(key("a"))
    timers.cancel(key("never set"))
    assert timers.next_deadline_ms() is None
    timers.set(key("a"), 30)
    assert drain(timers, 29) == []
    assert drain(timers, 30) == ["a"]


def test_heartbeats_do_not_pile_up() -> None:
    timers = Timers()
    for moment_ms in range(10_000):
        timers.set(key("a"), moment_ms + 10)
        drain(timers, moment_ms)
    assert len(timers._heap) < 5


@given(
    st.lists(st.tuples(st.sampled_from(["set", "cancel", "due"]), st.integers(0, 4), st.integers(0, 100)), max_size=60)
)
def test_as_a_dictionary_would(steps: list[tuple[str, int, int]]) -> None:
    timers = Timers()
    model: dict[TimerKey, int] = {}
    for what, number, moment_ms in steps:
        name = key(str(number))
        if what == "set":
            timers.set(name, moment_ms)
            model[name] = moment_ms
        elif what == "cancel":
            timers.cancel(name)
            model.pop(name, None)
        else:
            due = timers.due(moment_ms)
            expected = min(model.values(), default=None)
            if due is None:
                assert expected is None or expected > moment_ms
            else:
                assert model.pop(due) == expected
        assert len(timers) == len(model)
        next_ms = timers.next_deadline_ms()
        assert (next_ms is None) == (not model)
        assert next_ms is None or next_ms <= min(model.values())
