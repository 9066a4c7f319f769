"""The command `barnabas` and its subcommands.

Exit codes: 0 done, 1 failed (the message says why), 2 wrong usage.
"""

import argparse
import sys
from collections.abc import Sequence

from barnabas import __version__

DATA_DIRECTORY = "barnabas-data"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="barnabas",
        description="A distributed log that speaks Kafka's wire protocol.",
        epilog="Every command answers --help.",
    )
    top.add_argument("--version", action="version", version=f"barnabas {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_up(commands)
    _add_broker(commands)
    _add_simulate(commands)
    return top


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = commands.add_parser(
        "up",
        help="start a broker, or a cluster of them, on this machine",
        description="Starts a broker, or several that replicate to each other. Prints «ready HOST:PORT[,HOST:PORT...]» "
        "on standard output once all of them serve; logs go to standard error. SIGTERM or Ctrl-C ends them cleanly.",
        epilog="examples:\n"
        "  barnabas up\n"
        "  barnabas up --memory --port 0\n"
        "  barnabas up --brokers 3\n"
        "  barnabas up --data /var/lib/barnabas --config num.partitions=6 --config log.retention.hours=24",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    up.add_argument("--data", metavar="DIR", help=f"where the files are kept (default: {DATA_DIRECTORY})")
    up.add_argument("--memory", action="store_true", help="keep everything in memory and leave nothing behind")
    up.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    up.add_argument(
        "--port",
        type=_port,
        default=9092,
        help="port to listen on, 0 for a free one; of several brokers the first (default: 9092)",
    )
    up.add_argument(
        "--brokers", type=_count, default=1, metavar="N", help="how many brokers, one process each (default: 1)"
    )
    up.add_argument(
        "--node-id", type=int, default=1, metavar="N", help="number of this node, or of the first one (default: 1)"
    )
    up.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)  # stops when its input ends
    _add_common(up)


def _add_broker(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    broker = commands.add_parser(
        "broker",
        help="start one node from a properties file",
        description="Starts one node from a properties file with Kafka's names.",
        epilog="example:\n  barnabas broker server.properties --config log.dirs=/tmp/other",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    broker.add_argument("file", metavar="FILE", help="properties file")
    _add_common(broker)


def _add_simulate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    simulate = commands.add_parser(
        "simulate",
        help="run clusters in a simulated world full of faults",
        description="Runs whole clusters with their clients in this process, on a virtual clock, with a network and "
        "disks that fail. One seed gives one run. Where a guarantee breaks it says which, and how to see it again.",
        epilog="examples:\n  barnabas simulate --seeds 100\n  barnabas simulate --seed 4711 --trace",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("--seeds", type=int, default=20, metavar="N", help="how many runs (default: %(default)s)")
    simulate.add_argument("--seed", type=int, metavar="S", help="only this run")
    simulate.add_argument(
        "--nodes", type=int, default=3, metavar="K", help="size of the cluster (default: %(default)s)"
    )
    simulate.add_argument(
        "--seconds", type=float, default=20.0, help="how long faults go on, in virtual time (default: %(default)s)"
    )
    simulate.add_argument("--trace", action="store_true", help="print everything that happens")


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and goes before what a file says",
    )
    command.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="what is logged to standard error (default: %(default)s)",
    )


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers")
    return int(text)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535 is wanted")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if not __debug__:
        print("barnabas relies on its assertions: run it without python -O", file=sys.stderr)
        return 1
    if options.command == "simulate":
        from barnabas.cli import simulate

        return simulate.simulate(options)
    if options.command == "up" and options.brokers > 1:
        from barnabas.cli import supervise  # which needs no broker in its memory

        return supervise.up(options)
    from barnabas.cli import serve

    return serve.up(options) if options.command == "up" else serve.broker(options)
