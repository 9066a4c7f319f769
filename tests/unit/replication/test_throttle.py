"""Rates of copying: what was copied is paid for with time."""

from barnabas.replication.throttle import Throttle, is_throttled


def test_nothing_waits_without_a_rate() -> None:
    throttle = Throttle()
    throttle.copied(1 << 40, 5.0)
    assert throttle.wait_ms(5.0) < 0.001


def test_what_was_copied_is_paid_for() -> None:
    throttle = Throttle(1000)
    assert throttle.wait_ms(50.0) == 0
    throttle.copied(100, 50.0)
    assert throttle.wait_ms(50.0) == 100
    throttle.copied(50, 100.0)
    assert throttle.wait_ms(100.0) == 100
    assert throttle.wait_ms(500.0) == 0, "what was not used is not saved up"
    throttle.copied(10, 500.0)
    assert throttle.wait_ms(500.0) == 10


def test_another_rate_counts_for_what_is_owed_too() -> None:
    throttle = Throttle(1000)
    throttle.copied(1000, 0.0)
    throttle.changed(2000, 500.0)
    assert throttle.wait_ms(500.0) == 250
    throttle.changed((1 << 63) - 1, 500.0)
    assert throttle.wait_ms(500.0) < 0.001


def test_a_list_names_partitions_with_brokers() -> None:
    assert is_throttled(("*",), 7, 1)
    assert is_throttled(("0:1", "7:2"), 7, 2)
    assert not is_throttled(("0:1", "7:2"), 7, 1)
    assert not is_throttled((), 0, 1)
