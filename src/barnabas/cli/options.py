"""Options that several commands share, with one name, one help and one meaning each."""

from typing import Annotated

import typer

BOOTSTRAP_DEFAULT = "localhost:9092"
TIMEOUT_MS_DEFAULT = 15_000

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Brokers to begin with; one that answers is enough.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, in a shape that stays.")]
Timeout = Annotated[int, typer.Option("--timeout-ms", min=1, metavar="MS", help="How long to try before giving up.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it. Without this it is only shown what would be done.")]
Configs = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting; may be repeated.")
]
