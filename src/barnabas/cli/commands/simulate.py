"""`barnabas simulate`: runs of the simulation, counted, and for a failure the one command that shows it again."""

import sys
import time
from collections import Counter
from random import SystemRandom
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import single, verb
from barnabas.cli.options import Json
from barnabas.cli.text import Exit
from barnabas.simulation.run import Failure, Options, Result, run_seed

SEED_MAX = 1 << 32
TRACE_LINES_SHOWN = 40  # of a failure; --trace shows all

app = single()


@verb(app, "barnabas simulate --seeds 100", "barnabas simulate --seed 4711 --trace")
def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="How many runs.")] = 20,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", help="Only this run.")] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="K", help="Size of the cluster.")] = 3,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, metavar="S", help="How long faults go on, in virtual time.")
    ] = 20.0,
    trace: Annotated[bool, typer.Option("--trace", help="Print everything that happens.")] = False,
    json: Json = False,
) -> int:
    """Runs clusters in a simulated world full of faults.

    Whole clusters with their clients run in this process, on a virtual clock, with a network and disks that fail. One
    seed gives one run. Where a guarantee breaks it says which, and how to see it again.
    """
    random = SystemRandom()
    chosen = [seed] if seed is not None else [random.randrange(SEED_MAX) for _ in range(seeds)]
    sink = output.note if json else print
    options = Options(nodes=nodes, seconds=seconds, sink=sink if trace else None)
    results: list[Result] = []
    started = time.monotonic()
    with output.progress("simulating", len(chosen), wanted=not trace) as bar:
        for number in chosen:
            bar.describe(f"seed {number}")
            result = run_seed(number, options)
            results.append(result)
            bar.advance(1)
            if not json:
                print(line(result), flush=True)
            if result.failure is not None:
                print(report(result, result.failure, trace), file=sys.stderr, flush=True)
    if json:
        output.document({"runs": [_facts(result) for result in results]})
    else:
        print(summary(results, time.monotonic() - started))
    return Exit.FAILED if any(result.failure is not None for result in results) else Exit.DONE


def _facts(result: Result) -> dict[str, Any]:
    failure = result.failure
    return {
        "seed": result.seed,
        "nodes": result.options.nodes,
        "virtual_seconds": result.virtual_seconds,
        "starts": result.starts,
        "faults": result.faults,
        "events": result.events,
        "digest": result.digest,
        "failure": None if failure is None else {"kind": failure.kind, "message": failure.message},
        "again": replay_command(result),
    }


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
