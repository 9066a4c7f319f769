"""What the outcomes of Kafka's tests mean: the allow list, the reasons for failures, and the page that shows both.

A reason in reasons.toml explains a failure by the id of the test (CLASS#TEST, a shell pattern) or by what the failure
said (a regular expression). The first one that fits counts; a failure without a reason is "unexplained".
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

from suites import HERE, MODULES, VERSION, Outcome

ALLOWED = HERE / "tests.allow"
REASONS = HERE / "reasons.toml"
PAGE = HERE / "RESULTS.md"

LOOKS_INSIDE = "looks inside the JVM"
SKIPPED = "skipped by Kafka"
UNEXPLAINED = "unexplained"
# The kinds of reasons in reasons.toml, in the order of the page, and their titles there.
KINDS = {
    "looks-inside": LOOKS_INSIDE,
    "java-in-broker": "needs Java classes in the broker",
    "feature": "feature not present yet",
    "difference": "documented difference",
}
NOT_APPLICABLE = (LOOKS_INSIDE, SKIPPED)
FAILURES = ("needs Java classes in the broker", "feature not present yet", "documented difference", UNEXPLAINED)
COLUMNS = ("passed", *NOT_APPLICABLE, *FAILURES)
MESSAGE_LENGTH_MAX = 160  # of what an unexplained failure said, on the page


@dataclass(frozen=True, slots=True)
class Reason:
    kind: str
    text: str
    tests: tuple[str, ...] = ()
    messages: tuple[re.Pattern[str], ...] = ()

    def explains(self, outcome: Outcome) -> bool:
        return any(fnmatchcase(outcome.id, test) for test in self.tests) or any(
            message.search(outcome.message) for message in self.messages
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: str  # "passed", or why it did not pass
    reason: str = ""


def read_reasons(path: Path = REASONS) -> list[Reason]:
    found = tomllib.loads(path.read_text())
    if unknown := set(found) - set(KINDS):
        raise ValueError(
            f"{path.name}: no kind of reason is called {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}"
        )
    return [
        Reason(
            kind=title,
            text=entry["why"],
            tests=tuple(test if "#" in test else f"{test}#*" for test in entry.get("tests", ())),
            messages=tuple(re.compile(message) for message in entry.get("messages", ())),
        )
        for name, title in KINDS.items()
        for entry in found.get(name, ())
    ]


def judge(outcome: Outcome, reasons: Iterable[Reason]) -> Verdict:
    if outcome.status == "passed":
        return Verdict("passed")
    if outcome.status == "skipped":
        return Verdict(SKIPPED, outcome.message)
    if outcome.status == "aborted":
        return Verdict(LOOKS_INSIDE, outcome.message.rpartition("looks inside the JVM: ")[2])
    for reason in reasons:
        if reason.explains(outcome):
            return Verdict(reason.kind, reason.text)
    return Verdict(UNEXPLAINED, outcome.message)


def read_allowed() -> list[str]:
    lines = ALLOWED.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def add_allowed(tests: Iterable[str]) -> None:
    comments = [line for line in ALLOWED.read_text().splitlines() if line.startswith("# ")]
    ALLOWED.write_text("\n".join([*comments, *sorted({*read_allowed(), *tests})]) + "\n")


def merged(before: Sequence[Outcome], now: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes by test, the newer ones in place of the older, in the order of modules, classes and tests."""
    by_test = {(each.module, each.id): each for each in (*before, *now)}
    order = list(MODULES)
    return sorted(by_test.values(), key=lambda each: (order.index(each.module), each.class_name, each.test))


@dataclass(frozen=True, slots=True)
class ClassResult:
    """What the page says about one class."""

    module: str
    counts: Mapping[str, int]  # by the titles of the columns
    failures: Sequence[str]  # the class's rows of the second table


def results(outcomes: Sequence[Outcome], reasons: Sequence[Reason]) -> dict[str, ClassResult]:
    """By the names of the classes."""
    found: dict[str, ClassResult] = {}
    for class_name, group in groupby(merged([], outcomes), lambda outcome: outcome.class_name):
        judged = [(each, judge(each, reasons)) for each in group]
        counts = Counter(verdict.kind for _, verdict in judged)
        found[class_name] = ClassResult(judged[0][0].module, counts, _failures(judged))
    return found


def read_page(text: str) -> dict[str, ClassResult]:
    """The results on an earlier page: those of classes that this machine has not run."""
    found: dict[str, ClassResult] = {}
    module = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            module = line.removeprefix("## ")
        elif not module or "." not in cells[0]:
            continue
        elif len(cells) == len(COLUMNS) + 2 and cells[1].isdigit():
            counts = {column: int(cell or 0) for column, cell in zip(COLUMNS, cells[2:], strict=True)}
            found[cells[0]] = ClassResult(module, counts, [])
        else:
            result = found[cells[0]]
            found[cells[0]] = replace(result, failures=[*result.failures, line])
    return found


def page(shown: Mapping[str, ClassResult]) -> str:
    in_order = sorted(shown.items(), key=lambda pair: (list(MODULES).index(pair[1].module), pair[0]))
    modules: dict[str, Counter[str]] = {}
    for _, result in in_order:
        modules[result.module] = modules.get(result.module, Counter()) + Counter(result.counts)
    totals = {**modules, "all": sum(modules.values(), Counter())}
    lines = [
        "# Apache Kafka's tests against Barnabas: results",
        "",
        f"`compat/apache-kafka/run --page` writes this page from the last run of each JUnit class of Kafka {VERSION}.",
        "A test counts once for each of its invocations: many run on isolated and on combined nodes. The reasons come",
        "from [reasons.toml](reasons.toml); [README.md](README.md) explains the columns.",
        "",
        *_table("module", totals),
    ]
    for module in modules:
        members = {name: result for name, result in in_order if result.module == module}
        lines += ["", f"## {module}", ""]
        lines += _table("class", {name: result.counts for name, result in members.items()})
        missing = [row for result in members.values() for row in result.failures]
        if missing:
            lines += ["", "| class | tests that do not pass | why |", "|---|---|---|", *missing]
    return "\n".join(lines) + "\n"


def _table(first: str, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    rows = [
        f"| {name} | {sum(count.values())} | " + " | ".join(str(count.get(column) or "") for column in COLUMNS) + " |"
        for name, count in counts.items()
    ]
    return [f"| {first} | tests | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * (len(COLUMNS) + 1), *rows]


def _failures(judged: Sequence[tuple[Outcome, Verdict]]) -> list[str]:
    """One row for each class and reason, with the methods concerned."""
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    for outcome, verdict in judged:
        if verdict.kind != "passed":
            reason = verdict.reason if verdict.kind != UNEXPLAINED else verdict.reason[:MESSAGE_LENGTH_MAX]
            methods = rows.setdefault((outcome.class_name, verdict.kind, reason), Counter())
            methods[outcome.method or outcome.test] += 1
    return [
        f"| {class_name} | {_listed(methods)} | {kind}: {reason.replace('|', chr(92) + '|')} |"
        for (class_name, kind, reason), methods in sorted(rows.items())
    ]


def _listed(methods: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(methods.items()))
