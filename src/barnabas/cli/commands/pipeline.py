"""`barnabas pipeline`: runs pipelines on Spark, shows how far they are, and writes files to begin with."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Json
from barnabas.cli.text import CommandFailed, Exit

if TYPE_CHECKING:
    from barnabas.spark.pipelines.runner import FlowProgress

NEEDS = ("pyspark", "pyarrow", "numpy")

app = noun("Runs pipelines on Spark: from topics, files and databases to topics, files and databases.")


@verb(app, "barnabas pipeline run orders.py", "barnabas pipeline run mirror.toml --once")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline in Python (.py) or TOML.")],
    once: Annotated[bool, typer.Option("--once", help="End when all that is there now is done.")] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master, such as local[2] or spark://host:7077."),
    ] = None,
    json: Json = False,
) -> int:
    """Runs a pipeline until SIGTERM or Ctrl-C. It goes on where it stopped."""
    _check_extras()
    from barnabas.spark.java import JavaNotFound
    from barnabas.spark.pipelines.load import load
    from barnabas.spark.pipelines.runner import FlowFailed
    from barnabas.spark.pipelines.runner import run as run_pipeline

    pipeline = load(file)
    output.note(f"pipeline {pipeline.name}: {', '.join(pipeline.flows)}; checkpoints in {pipeline.checkpoints}")
    shown = Shown(json)
    try:
        rows = run_pipeline(pipeline, once=once, master=master, show=shown.show)
    except (FlowFailed, JavaNotFound) as error:
        raise CommandFailed(str(error)) from None
    finally:
        shown.close()
    if json:
        output.document({"pipeline": pipeline.name, "rows": rows})
    else:
        output.table(("flow", "rows"), rows.items())
    return Exit.DONE


@verb(app, "barnabas pipeline new orders")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: letters, digits, hyphens and underscores.")],
    bootstrap_server: Bootstrap = BOOTSTRAP_DEFAULT,
    directory: Annotated[Path, typer.Option("--directory", metavar="DIR", help="Where the file goes.")] = Path(),
) -> int:
    """Writes a small pipeline to begin with."""
    _check_extras()
    from barnabas.spark.pipelines.load import new as write_new

    try:
        path = write_new(name, directory, bootstrap_server)
    except FileExistsError as error:
        raise CommandFailed(f"{error.filename} is there already; choose another name") from None
    print(path)
    output.note(f"run it: barnabas pipeline run {path}")
    return Exit.DONE


def _check_extras() -> None:
    from importlib.util import find_spec

    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise CommandFailed(f"pipelines need {', '.join(missing)}: pip install 'barnabas[spark]'")


class Shown:
    """A table that is drawn anew on a terminal; elsewhere a line for each flow that went on."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._batches: dict[str, int] = {}  # the last one told of each flow
        self._live = None
        if not as_json and output.on_terminal(sys.stderr):
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()

    def show(self, flows: "list[FlowProgress]") -> None:
        if self._live is not None:
            from rich.table import Table

            drawn = Table("flow", "batch", "rows", "rows/s", "lag", "last batch")
            for each in flows:
                drawn.add_row(*_cells(each))
            self._live.update(drawn, refresh=True)
            return
        for each in flows:
            if self._batches.get(each.flow) == each.batch_id or each.batch_id < 0:
                continue
            self._batches[each.flow] = each.batch_id
            if self._as_json:
                print(output.line_of(each), file=sys.stderr, flush=True)
            else:
                name, batch, rows, rate, lag, took = _cells(each)
                output.note(f"{name}: batch {batch}, {rows} rows, {rate} a second, lag {lag}, took {took}")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def _cells(each: "FlowProgress") -> tuple[str, str, str, str, str, str]:
    return (
        each.flow,
        str(each.batch_id),
        f"{each.rows:,}",
        f"{each.rows_per_second:,.0f}",
        "-" if each.lag is None else f"{each.lag:,}",
        f"{each.batch_ms:,} ms",
    )
