"""The pytest plugin, as a suite of somebody else sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from _pytest.assertion.rewrite import assertstate_key
from client_libraries import confluent_kafka

from barnabas.testing import cluster, plugin

PRELOADED = (cluster, confluent_kafka)  # else each suite within this process would import them anew
pytest_plugins = ("pytester",)

WRITES = """
from confluent_kafka import Producer

def write(kafka, topic):
    codes = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, message: codes.append(error or message.offset()))
    producer.flush(20)
    return codes[0]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(writes=WRITES)
    return pytester


PLUGINS_OF_OTHERS = ("hypothesispytest", "randomly", "anyio")  # slow to load, and not what is tested here


def run_here(suite: pytest.Pytester) -> pytest.RunResult:
    return suite.runpytest_inprocess("-q", "-W", "error", "-p", "no:randomly")


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    without = [text for name in PLUGINS_OF_OTHERS for text in ("-p", f"no:{name}")]
    return suite.runpytest_subprocess("-q", "-W", "error", *without, *arguments, timeout=120)


def test_each_test_has_a_broker_of_its_own(suite: pytest.Pytester):
    suite.makepyfile(
        """
        import pytest
        from writes import write

        @pytest.mark.parametrize("time", range(3))
        def test(kafka, time):
            assert kafka.topics() == []
            kafka.create_topic("letters")
            assert write(kafka, "letters") == 0
        """
    )
    run_here(suite).assert_outcomes(passed=3)


def test_a_broker_may_serve_the_whole_run(suite: pytest.Pytester):
    """And no test sees what another one did to it."""
    suite.makeini("[pytest]\nkafka_scope = session\nkafka_config =\n    num.partitions=2\n    log.retention.hours = 1")
    suite.makepyfile(
        """
        import pytest
        from writes import write

        servers = set()

        @pytest.mark.parametrize("time", range(3))
        def test(kafka, kafka_session, time):
            assert kafka is kafka_session
            servers.add(kafka.bootstrap_servers)
            assert len(servers) == 1
            assert kafka.topics() == []
            kafka.create_topic("letters", -1)
            assert kafka.leader("letters", 1) == 1
            assert write(kafka, "letters") == 0
            kafka.fail_next("Produce", "INVALID_RECORD", times=100)
            kafka.jump_clock(1000)
            kafka.stop_broker()

        @pytest.mark.kafka(brokers=2)
        def test_of_its_own(kafka, kafka_session):
            assert kafka is not kafka_session
            assert len(kafka.bootstrap_servers.split(",")) == 2
        """
    )
    run_here(suite).assert_outcomes(passed=4)


def test_a_process_of_its_own_by_option_and_by_marker(suite: pytest.Pytester):
    suite.makeini("[pytest]\nkafka_subprocess = true\nkafka_scope = session")
    suite.makepyfile(
        """
        import threading
        import pytest
        from writes import write

        def brokers():
            return [each for each in threading.enumerate() if each.name.startswith("barnabas-broker")]

        def test_elsewhere(kafka):
            assert not brokers()
            assert write(kafka, kafka.topic()) == 0

        @pytest.mark.kafka(subprocess=False, config={"num.partitions": 3})
        def test_here(kafka):
            assert brokers()
            kafka.create_topic("letters", -1)
            assert kafka.leader("letters", 2) == 1
        """
    )
    run(suite).assert_outcomes(passed=2)


def test_parallel_workers_do_not_meet(suite: pytest.Pytester):
    suite.makeini("[pytest]\nkafka_scope = session")
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("time", range(6))
        def test(kafka, time):
            assert kafka.topics() == []
            kafka.create_topic("letters")
        """
    )
    run(suite, "-n", "2").assert_outcomes(passed=6)


@pytest.mark.parametrize(
    ("ini", "marker", "said"),
    [
        ("kafka_scope = module", "", "kafka_scope is 'module'; it must be one of function, session"),
        ("kafka_brokers = three", "", "kafka_brokers is 'three'; it must be a number from 1 on"),
        ("kafka_config = num.partitions", "", "'num.partitions' must have the form name=value"),
        ("kafka_config = num.partitons=3", "", "did you mean num.partitions?"),
        ("", "@pytest.mark.kafka(broker=3)", "the marker kafka has no broker: there are brokers, subprocess"),
        ("", "@pytest.mark.kafka(3)", "the marker kafka takes names with values"),
    ],
)
def test_what_is_wrong_is_said(suite: pytest.Pytester, ini: str, marker: str, said: str):
    suite.makeini(f"[pytest]\n{ini}")
    suite.makepyfile(f"import pytest\n\n{marker}\ndef test(kafka): pass")
    result = run_here(suite)
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()


def test_a_suite_that_does_not_use_it_does_not_feel_it(suite: pytest.Pytester):
    suite.makepyfile(
        """
        import sys, threading

        def test():
            loaded = sorted(name for name in sys.modules if name.split(".")[0] == "barnabas")
            assert loaded == ["barnabas", "barnabas.testing", "barnabas.testing.plugin"]
            assert "asyncio" not in sys.modules and "uvloop" not in sys.modules
            assert len(threading.enumerate()) == 1
        """
    )
    run(suite, "-p", "no:xdist", "--strict-markers").assert_outcomes(passed=1)


def test_a_fixture_of_that_name_in_a_suite_goes_before_ours(suite: pytest.Pytester):
    suite.makeconftest("import pytest\n@pytest.fixture\ndef kafka():\n    return 'mine'")
    suite.makepyfile("def test(kafka):\n    assert kafka == 'mine'")
    run_here(suite).assert_outcomes(passed=1)


def test_the_assertions_of_brokers_are_left_as_they_are(pytestconfig: pytest.Config):
    """An installed package is marked as a whole, for it brings a plugin; one in a working copy is not."""
    hook = pytestconfig.pluginmanager.rewrite_hook
    state = pytestconfig.stash[assertstate_key]
    hook.mark_rewrite("barnabas")
    assert hook._is_marked_for_rewrite("barnabas.never.imported", state)
    plugin.pytest_configure(pytestconfig)
    assert not hook._is_marked_for_rewrite("barnabas.never.imported", state)


def test_the_plugin_is_quick_to_import():
    """Beside pytest itself, which whoever has plugins has loaded."""
    program = (
        "import pytest, sys, time\nbefore = set(sys.modules)\nimport barnabas.testing.plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["barnabas", "barnabas.testing", "barnabas.testing.plugin"]
