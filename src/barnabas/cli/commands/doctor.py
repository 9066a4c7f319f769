"""`barnabas doctor`: what is wrong with a set-up, and what to do about it."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli import doctor_checks, output
from barnabas.cli.app import single, verb
from barnabas.cli.doctor_checks import OK, WRONG, Check
from barnabas.cli.main import DATA_DIRECTORY
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import START_TIMEOUT_MS_MAX, client_settings
from barnabas.cli.text import Exit
from barnabas.client.settings import AdminConfig

app = single()


@verb(
    app,
    "barnabas doctor",
    "barnabas doctor --bootstrap-server kafka.example:9092",
    "barnabas doctor --data /var/lib/barnabas --port 9192 --json",
)
def doctor(
    connection: Connection = USUAL_CONNECTION,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where brokers keep their files.")] = Path(
        DATA_DIRECTORY
    ),
    host: Annotated[str, typer.Option("--host", help="Where a broker would listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where a broker would listen.")] = 9092,
    json: Json = False,
) -> int:
    """Says what is wrong with a set-up, and what to do.

    Looks at Python and its packages, limits, the port, the data directory and its disk, and as a client at the brokers:
    whether they are where they say to be, and whether the clocks agree. Ends with 1 where something is wrong; that no
    broker runs is wrong where --bootstrap-server or --command-config says that one does.
    """
    checks: list[Check] = [
        *doctor_checks.python(),
        *doctor_checks.descriptors(),
        *doctor_checks.data_directory(data),
    ]
    is_expected = connection.bootstrap_server is not None or connection.command_config is not None
    config = AdminConfig(**client_settings(connection, AdminConfig, client_id="barnabas-doctor"))
    found = asyncio.run(
        doctor_checks.brokers(config, min(connection.timeout_ms, START_TIMEOUT_MS_MAX), is_expected=is_expected)
    )
    checks += found
    if not is_expected and found[0].status != OK:  # else it is that broker which has the port
        checks += doctor_checks.port(host, port)
    if json:
        output.document({"checks": checks, "wrong": sum(each.status == WRONG for each in checks)})
    else:
        output.table(("status", "what", "found"), ((each.status, each.name, each.found) for each in checks))
        for each in checks:
            if each.advice is not None:
                print(f"{each.name}: {each.advice}")
    return Exit.FAILED if any(each.status == WRONG for each in checks) else Exit.DONE
