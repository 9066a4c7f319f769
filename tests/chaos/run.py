"""`make chaos`: every fault on every target, against three brokers with real clients; then tests/chaos.md.

    tests/chaos/run.py                    everything, and the page
    tests/chaos/run.py --only "kill -9"   cases whose name contains it; the page is left alone
    tests/chaos/run.py --keep DIRECTORY   logs of nodes in cases that went wrong

What this machine cannot do is skipped, with the reason. Exit code 1 where anything acknowledged was lost.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(REPOSITORY / name) for name in ("tests/chaos", "tests/support", "src")]

import apache_kafka  # noqa: E402
import cases  # noqa: E402
import failover  # noqa: E402
import java_clients  # noqa: E402
import transactions  # noqa: E402
from places import why_no_namespaces  # noqa: E402

PAGE = REPOSITORY / "tests" / "chaos.md"
FAILOVER_TIMES = 7
HEADER = ["fault", "target", "acknowledged", "found", "taken over, s", "longest wait, s", "elsewhere, s"]
HEADER += ["compared, MB", "verdict"]
HOW_TO_READ = """\
Each line is a cluster of its own: three brokers as processes, a topic of three partitions with three replicas and
min.insync.replicas=2, a producer (librdkafka, acks=all, idempotent, otherwise default settings) and a reader in a
group. *Acknowledged* is what the producer was promised, *found* what a new consumer reads from the beginning: fewer
would be loss, more would be duplicates. *Taken over* is when others led what the target had led, and new clients could
write there. *Longest wait* is the longest time in which a partition that the target led had no acknowledged write of
the producer that was there before: its requests to a broker that is paused or cut off stay unanswered until that one is
back. *Elsewhere* is the same of the other partitions. A pause or a cut lasts 11 s (3 or 4 s where it hits all), longer
than the 9 s after which a silent broker is fenced. *Compared* is how much of the three brokers' logs was compared byte
by byte after they had stopped; they were equal unless the verdict says otherwise."""


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def why_no_small_disks() -> str | None:
    if platform.system() != "Linux":
        return "small disks are made by tmpfs, which is Linux's"
    return None if os.geteuid() == 0 else "mounting a small disk needs root"


def line(fault: str, target: str, result: cases.Result) -> str:
    verdict = "; ".join(result.wrong) or "nothing lost, nothing twice"
    waits = (result.takeover_seconds, result.silence_seconds, result.silence_elsewhere_seconds)
    figures = [
        f"{result.acknowledged:,}",
        f"{result.found:,}",
        *("" if wait is None else f"{wait:.1f}" for wait in waits),
    ]
    return "| " + " | ".join([fault, target, *figures, f"{result.compared_bytes / 1e6:.1f}", verdict]) + " |"


def matrix(only: str, keep: Path | None) -> tuple[list[str], bool]:
    """Lines of the table, and whether all went well."""
    reasons = {"network": why_no_namespaces(), "disk": why_no_small_disks()}
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    good = True
    for case, reason in cases.each_runnable(reasons):
        if only not in case.name:
            continue
        if reason is not None:
            lines.append(f"| {case.fault} | {case.target} | | | | | | | skipped: {reason} |")
            continue
        result = cases.run(case, keep)
        lines.append(line(case.fault, case.target, result))
        say(f"{lines[-1]} {result.seconds:.0f} s")
        good = good and not result.wrong
    return lines, good


def java(only: str) -> tuple[list[str], bool]:
    reason = apache_kafka.why_unavailable()
    lines = []
    good = True
    for who in ("leader", "controller"):
        fault = "kill -9, Kafka's verifiable clients"
        if only not in f"{fault}, {who}":
            continue
        if reason is not None:
            lines.append(f"| {fault} | {who} | | | | | | | skipped: {reason} |")
            continue
        apache_kafka.fetch_jars()
        result = java_clients.run(who)
        lines.append(line(fault, who, result))
        say(f"{lines[-1]} {result.seconds:.0f} s")
        good = good and not result.wrong
    return lines, good


def circumstances() -> list[str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"- {time.strftime('%Y-%m-%d %H:%M')}, commit {commit}",
        f"- {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}; load average when it began {os.getloadavg()[0]:.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--keep", type=Path, help="where to keep logs of cases that went wrong")
    options = parser.parse_args()
    lines = ["# Chaos", "", "Written by `make chaos`, from this run:", "", *circumstances(), "", HOW_TO_READ, ""]
    table, good = matrix(options.only, options.keep)
    more, also_good = java(options.only)
    copies, copies_good = transactions.table(options.only, options.keep, say)
    lines += [*table, *more, "", "## Transactions", "", transactions.HOW_TO_READ, "", *copies, ""]
    if not options.only:
        measured = {who: failover.measure(who, FAILOVER_TIMES, say) for who in ("leader", "controller")}
        lines += ["## From kill -9 to the next acknowledged write", "", *failover.table(measured), ""]
        PAGE.write_text("\n".join(lines))
        say(f"written to {PAGE.relative_to(REPOSITORY)}")
    print("\n".join(lines))
    return 0 if good and also_good and copies_good else 1


if __name__ == "__main__":
    sys.exit(main())
