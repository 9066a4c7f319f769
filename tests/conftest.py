"""What holds for all tests: their order, and a summary of what was skipped and left out, by reason.

Hypothesis judges speed by default, which depends on the machine; that is switched off.
"""

import gc
from collections import Counter
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("barnabas", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barnabas")

HERE = Path(__file__).resolve().parent
SKIPS_ALLOWED = HERE / "skips.allow"
# What cannot even be imported in an environment without Spark (make test LIGHT=1).
NEEDS_SPARK = (
    "spark",
    "unit/spark",
    "properties/test_arrow_decoder.py",
)
HAS_SPARK = find_spec("pyspark") is not None
collect_ignore = [] if HAS_SPARK else list(NEEDS_SPARK)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help=f"fail if a test is skipped for a reason that tests/{SKIPS_ALLOWED.name} does not name",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that start Spark come first: one worker then has them all, with one JVM, and what comes last is short."""
    items.sort(key=lambda item: "java" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """All modules and tests are there to stay. The simulation collects garbage after each run, and to go through them
    took a quarter of a second each time."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Each reason for which tests were skipped, with their number."""
    if not HAS_SPARK:
        terminalreporter.write_line(f"left out, for Spark is not installed: tests/{', tests/'.join(NEEDS_SPARK)}")
    allowed = allowed_skips()
    for reason, count in skip_reasons(terminalreporter).most_common():
        listed = "" if is_listed(reason, allowed) else f" (not in tests/{SKIPS_ALLOWED.name})"
        terminalreporter.write_line(f"skipped {count}: {reason}{listed}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With --strict-skips, an unlisted reason fails the run."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or not session.config.getoption("--strict-skips"):
        return
    allowed = allowed_skips()
    if session.exitstatus == pytest.ExitCode.OK and any(
        not is_listed(reason, allowed) for reason in skip_reasons(reporter)
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def skip_reasons(reporter: pytest.TerminalReporter) -> Counter[str]:
    """How many tests were skipped for each reason. A report holds it as (file, line, "Skipped: reason")."""
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", ()))


def allowed_skips() -> list[str]:
    return [line for line in SKIPS_ALLOWED.read_text().splitlines() if line and not line.startswith("#")]


def is_listed(reason: str, allowed: list[str]) -> bool:
    return any(fnmatchcase(reason, pattern) for pattern in allowed)
