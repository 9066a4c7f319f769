"""The command `barnabas`: the list of its commands, and the way to each.

Always holds: `--help`, `up` and `broker` need neither typer nor rich, whose import alone would cost a small broker a
third of its start and memory. All other commands are built on them and are imported by name when they are called.
What exit codes mean is in `text.Exit`.
"""

import os
import sys
from collections.abc import Sequence

from barnabas import __version__
from barnabas.cli.text import Exit, failed, suggestion

DATA_DIRECTORY = "barnabas-data"
COMPLETION_VARIABLE = "_BARNABAS_COMPLETE"  # set by the shell that asks how a line might go on
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")
SERVING = ("up", "broker")
# In the order of `--help`; the module of each is cli/commands/<name>.py, but for those that serve.
SECTIONS: dict[str, dict[str, str]] = {
    "brokers": {
        "up": "start a broker, or a cluster of them, on this machine",
        "broker": "start one node from a properties file",
        "doctor": "say what is wrong with a set-up",
    },
    "records": {
        "produce": "write records to a topic",
        "consume": "read records of topics",
        "bench": "measure how fast records are written and read",
    },
    "what there is": {
        "topic": "create, list, describe, alter and delete topics",
        "group": "list, describe, reset and delete groups of consumers",
        "cluster": "describe brokers, and say how the cluster is",
        "quorum": "describe the quorum of controllers, and change its voters",
        "reassign": "move replicas between brokers",
        "transactions": "list, describe and end transactions",
    },
    "data": {
        "pipeline": "run pipelines on Spark, and write new ones",
    },
    "files and tests": {
        "log": "read and check segment files",
        "simulate": "run clusters in a simulated world full of faults",
    },
}
COMMANDS = {name: help for section in SECTIONS.values() for name, help in section.items()}
USAGE = "usage: barnabas [-h] [--version] COMMAND ..."


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not __debug__:
        return failed("barnabas relies on its assertions: run it without python -O")
    if COMPLETION_VARIABLE in os.environ or (words and words[0].startswith(COMPLETION_OPTIONS)):
        return _run_on_typer(words)
    if not words:
        print(overview(), file=sys.stderr)
        return Exit.USAGE
    first = words[0]
    if first in ("-h", "--help"):
        print(overview())
        return Exit.DONE
    if first == "--version":
        print(f"barnabas {__version__}")
        return Exit.DONE
    if first in SERVING:
        return _serve(words)
    if first in COMMANDS:
        return _run_on_typer(words)
    what = "option" if first.startswith("-") else "command"
    return failed(f"no {what} {first}{suggestion(first, list(COMMANDS))}; see barnabas --help", Exit.USAGE)


def overview() -> str:
    lines = [USAGE, "", "A distributed log that speaks Kafka's wire protocol."]
    for title, commands in SECTIONS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:<13} {help}" for name, help in commands.items()]
    lines += [
        "",
        "options:",
        "  -h, --help            show this",
        "  --version             show the version",
        "  --install-completion  let this shell complete commands, options and names of topics",
        "  --show-completion     show what that would install",
        "",
        "Every command answers --help, with examples.",
    ]
    return "\n".join(lines)


def _run_on_typer(words: list[str]) -> int:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        what = words[0] if words else "completion"
        return failed(f"{what} needs the package {error.name}: pip install 'barnabas[cli]'")
    from barnabas.cli.app import run

    return run(words)


def _serve(words: list[str]) -> int:
    from barnabas.cli.serving_options import parser

    options = parser().parse_args(words)
    if options.command == "up" and options.brokers > 1:
        from barnabas.cli import supervise  # which needs no broker in its memory

        return supervise.up(options)
    from barnabas.cli import serve

    return serve.up(options) if options.command == "up" else serve.broker(options)
