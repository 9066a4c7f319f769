"""What signals ask of a pipeline that runs."""

import signal
import threading

from barnabas.spark.pipelines.runner import stopped_by_signals


def test_the_first_asks_for_an_end_and_the_second_for_one_at_once() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    stop = threading.Event()
    with stopped_by_signals(stop) as at_once:
        signal.raise_signal(signal.SIGTERM)
        assert (stop.is_set(), at_once.is_set()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert at_once.is_set()
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
