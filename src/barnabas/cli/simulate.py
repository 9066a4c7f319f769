"""`barnabas simulate`: runs of the simulation, counted, and for a failure the one command that shows it again."""

import argparse
import sys
import time
from collections import Counter
from random import SystemRandom

from barnabas.simulation.run import Failure, Options, Result, run_seed

SEED_MAX = 1 << 32
TRACE_LINES_SHOWN = 40  # of a failure; --trace shows all


def simulate(options: argparse.Namespace) -> int:
    if options.nodes < 1:
        print("barnabas: a cluster has at least one node", file=sys.stderr)
        return 2
    random = SystemRandom()
    seeds = [options.seed] if options.seed is not None else [random.randrange(SEED_MAX) for _ in range(options.seeds)]
    run_options = Options(nodes=options.nodes, seconds=options.seconds, sink=print if options.trace else None)
    results: list[Result] = []
    started = time.monotonic()
    for seed in seeds:
        result = run_seed(seed, run_options)
        results.append(result)
        print(line(result), flush=True)
        if result.failure is not None:
            print(report(result, result.failure, options.trace), file=sys.stderr, flush=True)
    print(summary(results, time.monotonic() - started))
    return 1 if any(result.failure is not None for result in results) else 0


def line(result: Result) -> str:
    verdict = "ok" if result.failure is None else f"FAILED ({result.failure.kind})"
    faults = sum(result.faults.values())
    return (
        f"seed {result.seed} {verdict}: {result.virtual_seconds:.0f} s simulated, {faults} faults, "
        f"{result.starts} starts, {result.events.get('ProduceAcknowledged', 0)} batches acknowledged, "
        f"digest {result.digest}"
    )


def report(result: Result, failure: Failure, traced: bool) -> str:
    tail = [] if traced else list(failure.trace[-TRACE_LINES_SHOWN:])
    return "\n".join(
        [
            *tail,
            failure.details.rstrip(),
            f"seed {result.seed} failed, {failure.kind}: {failure.message}",
            f"again: {replay_command(result)}",
        ]
    )


def replay_command(result: Result) -> str:
    defaults = Options()
    words = ["barnabas", "simulate", "--seed", str(result.seed), "--nodes", str(result.options.nodes)]
    if result.options.seconds != defaults.seconds:
        words += ["--seconds", f"{result.options.seconds:g}"]
    return " ".join(words)


def summary(results: list[Result], seconds: float) -> str:
    faults: Counter[str] = Counter()
    for result in results:
        faults.update(result.faults)
    hours = sum(result.virtual_seconds for result in results) / 3600
    failed = [str(result.seed) for result in results if result.failure is not None]
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())) or "none"
    lines = [
        f"{len(results)} seeds, {hours:.2f} simulated hours in {seconds:.0f} s, {sum(faults.values())} faults: {kinds}",
        f"failed: {', '.join(failed)}" if failed else "nothing failed",
    ]
    return "\n".join(lines)
