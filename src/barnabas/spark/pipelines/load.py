"""Pipelines from files: Python that makes a `Pipeline`, or TOML that names ready flows. And new ones to begin with.

    name = "orders"                     # TOML; the file's name where it is missing
    servers = "localhost:9092"
    [flows.per-minute]
    kind = "windowed_counts"
    source = "orders"                   # the rest are that kind's own words

Always holds: a file with a mistake (an unknown kind or word, a missing one, no pipeline) is refused by name before
anything runs. Does not know: how pipelines run.
"""

from __future__ import annotations

import inspect
import runpy
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from barnabas.config.validation import ConfigError
from barnabas.spark.pipelines import connect, jdbc, mirror, processing
from barnabas.spark.pipelines.model import Flow, Pipeline, Polling

KINDS: Mapping[str, Callable[..., Flow | Polling]] = {
    "windowed_counts": processing.windowed_counts,
    "deduplicated": processing.deduplicated,
    "joined": processing.joined,
    "sql": processing.sql,
    "files_in": connect.files_in,
    "lake": connect.lake,
    "jdbc_in": jdbc.jdbc_in,
    "jdbc_out": jdbc.jdbc_out,
    "mirror": mirror.mirror,
    "mirror_groups": mirror.mirror_groups,
}
WORDS = ("name", "servers", "settings", "checkpoints", "trigger", "spark", "flows")

TEMPLATE = '''"""The pipeline {name}: run it with `barnabas pipeline run {file}`.

It goes on where it stopped, and each record is written once. Stop it with Ctrl-C or SIGTERM.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from barnabas.spark.pipelines import Pipeline, Run, TopicSink

pipeline = Pipeline("{name}", servers="{servers}")


@pipeline.flow(TopicSink("{name}-out"))
def copy(run: Run) -> DataFrame:
    """Each record of {name}-in, its value in capital letters."""
    rows = run.stream("{name}-in")
    return rows.select("key", F.upper(F.col("value").cast("string")).alias("value"), "timestamp")
'''


def new(name: str, directory: Path, servers: str) -> Path:
    """Writes a file to begin with; FileExistsError where there is one."""
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"{name!r} is no name for a pipeline: letters, digits, hyphens and underscores are")
    path = directory / f"{name.replace('-', '_')}.py"
    text = TEMPLATE.format(name=name, file=path.name, servers=servers)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path


def load(path: Path) -> Pipeline:
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix == ".toml":
        with path.open("rb") as file:
            try:
                return from_spec(tomllib.load(file), default_name=path.stem)
            except tomllib.TOMLDecodeError as error:
                raise ConfigError(f"{path}: {error}") from None
    raise ConfigError(f"{path} is neither Python (.py) nor a specification (.toml)")


def _from_python(path: Path) -> Pipeline:
    if not path.exists():
        raise FileNotFoundError(2, "no such file", str(path))
    sys.path.insert(0, str(path.resolve().parent))  # so that it may import what lies beside it
    names = runpy.run_path(str(path))
    found = [each for each in names.values() if isinstance(each, Pipeline)]
    if len({id(each) for each in found}) != 1:
        raise ConfigError(
            f"{path} has {len(found) or 'no'} pipelines; it must make one, as in pipeline = Pipeline(...)"
        )
    return found[0]


def from_spec(spec: Mapping[str, Any], *, default_name: str) -> Pipeline:
    for word in spec:
        if word not in WORDS:
            raise ConfigError(f"{word} is no word of a pipeline{_closest(word, WORDS)}")
    settings = {key: spec[key] for key in WORDS if key in spec and key not in ("name", "flows")}
    pipeline = Pipeline(spec.get("name", default_name), **settings)
    for name, given in spec.get("flows", {}).items():
        pipeline.add(_flow(name, dict(given)))
    return pipeline


def _flow(name: str, given: dict[str, Any]) -> Flow | Polling:
    kind = given.pop("kind", None)
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ConfigError(f"flow {name}: kind {kind!r} is none of {known}{_closest(str(kind), KINDS)}")
    make = KINDS[kind]
    parameters = {key: each for key, each in inspect.signature(make).parameters.items() if key != "name"}
    for word in given:
        if word not in parameters:
            raise ConfigError(f"flow {name}: {word} is no word of {kind}{_closest(word, parameters)}")
    missing = [key for key, each in parameters.items() if each.default is inspect.Parameter.empty and key not in given]
    if missing:
        raise ConfigError(f"flow {name}: {kind} needs {', '.join(missing)}")
    return make(name, **given)


def _closest(word: str, known: Any) -> str:
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
