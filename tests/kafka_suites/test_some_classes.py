"""A few of Apache Kafka's own JUnit classes against this Barnabas: at most three minutes of `make compat-kafka`.

A class passes if its tests on the allow list of compat/apache-kafka do.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "compat" / "apache-kafka"))

import suites
import verdicts

WHY_NOT = suites.why_unavailable()
ATTEMPTS = 2  # some tests have deadlines of their own, which a busy machine may miss
CLASSES = (
    "clients.producer.ProducerIntegrationTest",
    "kafka.server.ConsumerGroupDescribeRequestTest",
    "kafka.server.DescribeQuorumRequestTest",
    "kafka.server.JoinGroupRequestTest",
    "kafka.server.OffsetFetchRequestTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "server.log.LogAppendTimeTest",
    "streams.integration.EmitOnChangeIntegrationTest",
    "tools.DeleteRecordsCommandTest",
    "tools.MetadataQuorumCommandTest",
)

pytestmark = [pytest.mark.java, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]


@pytest.fixture(scope="session")
def prepared() -> suites.Suites:
    try:
        return suites.prepare()
    except suites.CannotRun as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", CLASSES)
def test_tests_on_the_allow_list_pass(prepared: suites.Suites, name: str) -> None:
    expected = {test for test in verdicts.read_allowed() if test.startswith(f"{name}#")}
    assert expected, f"no test of {name} is on the allow list"
    missing: dict[str, str] = {}
    for _ in range(ATTEMPTS):
        outcomes = prepared.run([prepared.find(name)], suites.own_barnabas(), limits=suites.Limits())
        passed = {outcome.id for outcome in outcomes if outcome.status == "passed"}
        messages = {outcome.id: f"{outcome.status}: {outcome.message}" for outcome in outcomes}
        missing = {test: messages.get(test, "not run") for test in expected - passed}
        if not missing:
            break
    assert missing == {}
