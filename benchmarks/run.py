"""`make bench`: Barnabas and Apache Kafka side by side in one run, one broker and three, then Barnabas as data grows.

    benchmarks/run.py                 rounds A B A B A B, medians
    benchmarks/run.py --quick         one small round: shows that everything works, its figures mean little
    benchmarks/run.py --barnabas-only without Apache Kafka (also where Java or its jars are missing)
    benchmarks/run.py --only one      a part alone: one broker, three brokers (three), transactions, cold reads
                                      (cold), growth (flatness)

Prints a table and writes it to benchmarks/results/DATE-COMMIT.md, or DATE-COMMIT-PART.md; a quick run is not kept.
Ratios of one run on one machine are what counts: figures of different machines, or of a busy one, are not to be
compared.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / name) for name in ("benchmarks", "tests/support", "src")]

import apache_kafka  # noqa: E402
from end_to_end import cold_reads, flatness, report, side, transactions  # noqa: E402

RESULTS = REPOSITORY / "benchmarks" / "results"
PARTS = ("one", "three", "transactions", "cold", "flatness")
ROUNDS = 3
SAMPLES = 2_000
TRANSACTION_SECONDS, QUICK_TRANSACTION_SECONDS = 10.0, 1.0
QUICK_SAMPLES = 200
_began = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _began:6.1f} s] {text}", file=sys.stderr, flush=True)


def output_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    except FileNotFoundError:
        return ""
    return (done.stdout or done.stderr).strip()


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def circumstances(quick: bool, with_kafka: bool, without_kafka: str) -> list[str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = output_of("git", "rev-parse", "--short", "HEAD")
    changed = output_of("git", "status", "--porcelain", "--", "src")
    load = os.getloadavg()[0]
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvloop", "crc32c", "cramjam", "confluent-kafka"))
    lines = [
        f"- machine: {processor()}, {os.cpu_count()} cores, {memory:.0f} GiB; {platform.system()} {platform.release()}",
        f"- load average when it began: {load:.1f} (much above 0 means that figures are not to be trusted)",
        f"- commit: {commit}{' with uncommitted changes' if changed else ''}; {time.strftime('%Y-%m-%d %H:%M')}",
        f"- Python {platform.python_version()}, {packages}",
    ]
    if with_kafka:
        java = output_of("java", "-version").splitlines()[0]
        lines.append(f"- Apache Kafka {apache_kafka.VERSION}, {java}, {' '.join(apache_kafka.SERVER_FLAGS)}")
    else:
        lines.append(f"- without Apache Kafka: {without_kafka}")
    if quick:
        lines.append("- a quick run: it shows that everything works, and nothing else")
    return lines


def compare(rounds: int, quick: bool, with_kafka: bool) -> list[str]:
    sizes = side.QUICK if quick else side.FULL
    barnabas, kafka = alternate(rounds, with_kafka, (side.open_barnabas, side.open_kafka), sizes, replicas=1)
    heading = f"One broker, {side.PARTITIONS} partitions, acks=all. Rounds: {rounds}; medians (least to most)."
    return ["## Side by side", "", heading, "", *report.comparison(barnabas, kafka), ""]


def compare_three(rounds: int, quick: bool, with_kafka: bool) -> list[str]:
    sizes = side.THREE_QUICK if quick else side.THREE
    openers = (side.open_three_barnabas, side.open_three_kafka)
    barnabas, kafka = alternate(rounds, with_kafka, openers, sizes, replicas=3)
    heading = (
        f"Three brokers on one machine, {side.PARTITIONS} partitions with three replicas, acks=all, "
        f"min.insync.replicas=2; memory is that of all three together. Rounds: {rounds}; medians (least to most)."
    )
    lines = ["## Three brokers", "", heading, "", *report.comparison(barnabas, kafka), ""]
    return [*lines, *report.absolute(barnabas), ""]


def compare_transactions(rounds: int, quick: bool, with_kafka: bool) -> list[str]:
    seconds = QUICK_TRANSACTION_SECONDS if quick else TRANSACTION_SECONDS
    barnabas: report.Rounds = []
    kafka: report.Rounds = []
    for number in range(rounds):
        say(f"transactions, round {number + 1} of {rounds}")
        barnabas.append(transactions.measure(side.open_barnabas, seconds))
        if with_kafka:
            kafka.append(transactions.measure(side.open_kafka, seconds))
    heading = (
        f"One broker, transactions of one record of 100 bytes, acks=all, transaction version 2, one producer and "
        f"{transactions.PRODUCERS} at once. Rounds: {rounds}; medians (least to most)."
    )
    return ["## Transactions", "", heading, "", *report.comparison(barnabas, kafka), ""]


def compare_cold(rounds: int, quick: bool, with_kafka: bool) -> list[str]:
    bulk_bytes = cold_reads.QUICK_BULK_BYTES if quick else cold_reads.BULK_BYTES
    barnabas: report.Rounds = []
    kafka: report.Rounds = []
    for number in range(rounds):
        say(f"cold reads, round {number + 1} of {rounds}")
        barnabas.append(cold_reads.measure(side.open_barnabas, bulk_bytes, lambda text: say(f"Barnabas: {text}")))
        if with_kafka:
            kafka.append(cold_reads.measure(side.open_kafka, bulk_bytes, lambda text: say(f"Kafka: {text}")))
    heading = (
        f"One broker. {cold_reads.RATE} records of 100 bytes a second, acks=all, beside a reader of "
        f"{bulk_bytes / 1e9:g} GB that is evicted from the page cache before each of {cold_reads.PASSES} passes. "
        f"Rounds: {rounds}; medians (least to most)."
    )
    return ["## Cold reads", "", heading, "", *report.comparison(barnabas, kafka), ""]


def alternate(
    rounds: int,
    with_kafka: bool,
    openers: tuple[Callable[[Path], side.Broker], Callable[[Path], side.Broker]],
    sizes: side.Sizes,
    replicas: int,
) -> tuple[report.Rounds, report.Rounds]:
    """A B A B A B, so that a machine that becomes slower does so for both."""
    java = apache_kafka.why_unavailable() is None
    barnabas: report.Rounds = []
    kafka: report.Rounds = []
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        barnabas.append(side.measure_round("Barnabas", openers[0], sizes, java, say, replicas=replicas))
        if with_kafka:
            kafka.append(side.measure_round("Kafka", openers[1], sizes, java, say, replicas=replicas))
    return barnabas, kafka


def grow(quick: bool) -> list[str]:
    steps = flatness.QUICK_STEPS if quick else flatness.STEPS
    samples = QUICK_SAMPLES if quick else SAMPLES
    lines = ["## Cost of one operation as data grows", "", "Barnabas, one request at a time from Python, median.", ""]
    lines += [*report.flatness("segments", flatness.over_segments(steps, samples, say)), ""]
    lines += [*report.flatness("partitions", flatness.over_partitions(steps, samples, say)), ""]
    return lines


def write(lines: list[str], only: list[str]) -> None:
    RESULTS.mkdir(exist_ok=True)
    what = [time.strftime("%Y-%m-%d"), output_of("git", "rev-parse", "--short", "HEAD"), *only]
    path = RESULTS / f"{'-'.join(what)}.md"
    path.write_text("\n".join(lines))
    say(f"written to {path.relative_to(REPOSITORY)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small round of everything")
    parser.add_argument("--rounds", type=int, default=0, help=f"how many rounds (default: {ROUNDS})")
    parser.add_argument("--barnabas-only", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated (default: all)")
    options = parser.parse_args()
    compileall.compile_dir(REPOSITORY / "src", quiet=1)  # as pip does; without it brokers start slower and are larger
    reason = "not asked for" if options.barnabas_only else apache_kafka.why_unavailable()
    if reason is None:
        apache_kafka.fetch_jars()
    else:
        say(f"without Apache Kafka: {reason}")
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    lines = ["# Benchmark", "", *circumstances(options.quick, reason is None, reason or ""), ""]
    parts = options.only or PARTS
    if "one" in parts:
        lines += compare(rounds, options.quick, reason is None)
    if "three" in parts:
        lines += compare_three(rounds, options.quick, reason is None)
    if "transactions" in parts:
        lines += compare_transactions(rounds, options.quick, reason is None)
    if "cold" in parts:
        lines += compare_cold(rounds, options.quick, reason is None)
    if "flatness" in parts:
        lines += grow(options.quick)
    print("\n".join(lines))
    if not options.quick:
        write(lines, options.only or [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
