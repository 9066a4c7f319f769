"""The options of `barnabas up` and `barnabas broker`, which are read without typer to keep brokers small."""

import argparse

from barnabas.cli.main import COMMANDS, DATA_DIRECTORY


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="barnabas")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_up(commands)
    _add_broker(commands)
    return top


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """One for each command, for shell completion and the reference page."""
    (subparsers,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(subparsers.choices)


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = commands.add_parser(
        "up",
        help=COMMANDS["up"],
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
        help=COMMANDS["broker"],
        description="Starts one node from a properties file with Kafka's names.",
        epilog="example:\n  barnabas broker server.properties --config log.dirs=/tmp/other",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    broker.add_argument("file", metavar="FILE", help="properties file")
    _add_common(broker)


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and goes before what a file says",
    )
    command.add_argument(
        "--lenient",
        action="store_true",
        help="start although the name of a setting is close to a known one and probably a mistake; it has no effect",
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
