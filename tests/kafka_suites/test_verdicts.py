"""How the outcomes of Kafka's tests are judged, and what the page shows of them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "compat" / "apache-kafka"))

import suites
import verdicts
from suites import Outcome
from verdicts import UNEXPLAINED, Verdict


def outcome(test: str = "testIt[1]", status: str = "failed", message: str = "", name: str = "a.ATest") -> Outcome:
    return Outcome("core", name, test, status, 1.0, message)


@pytest.fixture
def reasons(tmp_path: Path) -> list[verdicts.Reason]:
    path = tmp_path / "reasons.toml"
    path.write_text(
        '[[looks-inside]]\nwhy = "reads metrics"\ntests = ["a.MetricsTest"]\n'
        '[[feature]]\nwhy = "share groups"\ntests = ["a.ATest#testShare*"]\nmessages = ["share[.]version"]\n'
    )
    return verdicts.read_reasons(path)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (outcome(status="passed"), Verdict("passed")),
        (outcome(status="aborted", message="Error: looks inside the JVM: x()"), Verdict("looks inside the JVM", "x()")),
        (outcome(status="skipped", message="disabled"), Verdict("skipped by Kafka", "disabled")),
        (outcome("testShareGroup[2] combined"), Verdict("feature not present yet", "share groups")),
        (outcome(message="unknown share.version"), Verdict("feature not present yet", "share groups")),
        (outcome(name="a.MetricsTest"), Verdict("looks inside the JVM", "reads metrics")),
        (outcome(status="timeout", message="120 s"), Verdict(UNEXPLAINED, "120 s")),
    ],
)
def test_each_outcome_has_a_verdict(reasons: list[verdicts.Reason], found: Outcome, verdict: Verdict) -> None:
    assert verdicts.judge(found, reasons) == verdict


def test_an_unknown_kind_of_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text('[[futures]]\nwhy = "later"\n')
    with pytest.raises(ValueError, match="futures"):
        verdicts.read_reasons(path)


def test_the_page_counts_and_explains(reasons: list[verdicts.Reason]) -> None:
    outcomes = [
        outcome(status="passed"),
        outcome("testShareGroup[1] isolated"),
        outcome("testShareGroup[2] combined"),
        outcome("testOther", message="expected: <1> but was: <2>"),
    ]
    page = verdicts.page(verdicts.results(outcomes, reasons))
    assert "| core | 4 | 1 |  |  |  | 2 |  | 1 |" in page
    assert "| a.ATest | testShareGroup (2) | feature not present yet: share groups |" in page
    assert "| a.ATest | testOther | unexplained: expected: <1> but was: <2> |" in page


def test_classes_that_were_not_run_keep_their_place_on_the_page(reasons: list[verdicts.Reason]) -> None:
    old = [outcome("testA", message="a | b"), outcome("testA", "passed", name="a.BTest"), outcome("testC", "passed")]
    page = verdicts.page(verdicts.results(old, reasons))
    assert verdicts.page(verdicts.read_page(page)) == page
    new = verdicts.results([outcome("testA", name="a.BTest")], reasons)
    assert verdicts.page({**verdicts.read_page(page), **new}) == verdicts.page(
        {**verdicts.results(old, reasons), **new}
    )


def test_the_committed_page_can_be_read_and_written_again() -> None:
    committed = verdicts.PAGE.read_text()
    assert verdicts.page(verdicts.read_page(committed)) == committed


def test_a_later_outcome_replaces_an_earlier_one() -> None:
    assert verdicts.merged([outcome(), outcome("testB")], [outcome(status="passed")]) == [
        outcome("testB"),
        outcome(status="passed"),
    ]


def test_outcomes_are_kept_in_a_file(tmp_path: Path) -> None:
    kept = [outcome(), outcome("testB", "passed")]
    suites.write_outcomes(tmp_path / "outcomes.tsv", kept)
    assert suites.read_outcomes(tmp_path / "outcomes.tsv") == kept


def test_every_allowed_test_is_named_once_and_in_order() -> None:
    allowed = verdicts.read_allowed()
    assert allowed == sorted(set(allowed))


def test_every_reason_is_needed_for_something() -> None:
    """A reason names tests or messages, and none of the tests that it names by their whole id is on the allow list."""
    allowed = set(verdicts.read_allowed())
    for reason in verdicts.read_reasons():
        assert reason.tests or reason.messages
        assert not allowed & set(reason.tests)
