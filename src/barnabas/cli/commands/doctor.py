"""`barnabas doctor`: what is wrong with a set-up, and what to do about it."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli import doctor_checks, output
from barnabas.cli.app import single, verb
from barnabas.cli.doctor_checks import OK, WRONG, Check
from barnabas.cli.main import DATA_DIRECTORY
from barnabas.cli.options import BOOTSTRAP_DEFAULT, Json
from barnabas.cli.text import Exit

app = single()


@verb(
    app,
    "barnabas doctor",
    "barnabas doctor --bootstrap-server kafka.example:9092",
    "barnabas doctor --data /var/lib/barnabas --port 9192 --json",
)
def doctor(
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar="BARNABAS_BOOTSTRAP",
            show_envvar=True,
            metavar="HOST:PORT,...",
            help=f"Brokers that should be running. Else {BOOTSTRAP_DEFAULT} is tried, and need not be there.",
        ),
    ] = None,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where brokers keep their files.")] = Path(
        DATA_DIRECTORY
    ),
    host: Annotated[str, typer.Option("--host", help="Where a broker would listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where a broker would listen.")] = 9092,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, metavar="MS", help="How long to wait for brokers.")
    ] = 3000,
    json: Json = False,
) -> int:
    """Says what is wrong with a set-up, and what to do.

    Looks at Python and its packages, limits, the port, the data directory and its disk, and as a client at the brokers:
    whether they are where they say to be, and whether the clocks agree. Ends with 1 where something is wrong.
    """
    checks: list[Check] = [
        *doctor_checks.python(),
        *doctor_checks.descriptors(),
        *doctor_checks.data_directory(data),
    ]
    servers = bootstrap_server or BOOTSTRAP_DEFAULT
    found = asyncio.run(doctor_checks.brokers(servers, timeout_ms, expected=bootstrap_server is not None))
    checks += found
    if bootstrap_server is None and found[0].status != OK:  # else it is that broker which has the port
        checks += doctor_checks.port(host, port)
    if json:
        output.document({"checks": checks, "wrong": sum(each.status == WRONG for each in checks)})
    else:
        output.table(("status", "what", "found"), ((each.status, each.name, each.found) for each in checks))
        for each in checks:
            if each.advice is not None:
                print(f"{each.name}: {each.advice}")
    return Exit.FAILED if any(each.status == WRONG for each in checks) else Exit.DONE
