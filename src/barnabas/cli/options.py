"""Options that several commands share, with one name, one help and one meaning each."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

BOOTSTRAP_DEFAULT = "localhost:9092"
TIMEOUT_MS_DEFAULT = 15_000

_BOOTSTRAP = typer.Option(
    "--bootstrap-server",
    "-b",
    envvar="BARNABAS_BOOTSTRAP",
    show_envvar=True,
    show_default=BOOTSTRAP_DEFAULT,
    metavar="HOST:PORT,...",
    help="Brokers to begin with; one that answers is enough.",
)
Bootstrap = Annotated[str, _BOOTSTRAP]


class Connection(NamedTuple):
    """Which cluster, how to speak to it, and how long to try. A command that has it as `connection` has each of its
    fields as an option (`app.verb`)."""

    bootstrap_server: Annotated[str | None, _BOOTSTRAP] = None
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Properties of the client by Kafka's names, as Kafka's own tools take them.",
        ),
    ] = None
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, metavar="MS", help="How long to try before giving up.")
    ] = TIMEOUT_MS_DEFAULT


USUAL_CONNECTION = Connection()

Json = Annotated[bool, typer.Option("--json", help="Print JSON, in a shape that stays.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it. Without this it is only shown what would be done.")]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be repeated.")
]
Acks = Annotated[
    str | None, typer.Option("--acks", show_default="all", metavar="all|1|0", help="Who must have a record.")
]
CompressionCodec = Annotated[
    str | None,
    typer.Option("--compression-codec", show_default="none", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."),
]
ProducerProperties = Annotated[
    list[str] | None,
    typer.Option("--producer-property", metavar="NAME=VALUE", help="A setting of producers; may be repeated."),
]
