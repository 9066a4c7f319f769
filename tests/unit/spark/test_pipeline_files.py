"""Pipelines from files: what is in them, and what is wrong with them, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.validation import ConfigError
from barnabas.spark.pipelines.load import KINDS, from_spec, load, new
from barnabas.spark.pipelines.runner import reason_of


def flow(**words: object) -> dict[str, object]:
    return {"kind": "deduplicated", "source": "a", "sink": "b", **words}


def test_a_specification(tmp_path: Path) -> None:
    path = tmp_path / "orders.toml"
    path.write_text('servers = "far:9092"\n[flows.unique]\nkind = "deduplicated"\nsource = "a"\nsink = "b"\n')
    found = load(path)
    assert (found.name, found.servers, list(found.flows)) == ("orders", "far:9092", ["unique"])


def test_a_new_one_can_be_loaded_and_is_not_written_over(tmp_path: Path) -> None:
    path = new("my-orders", tmp_path, "localhost:9092")
    assert (path.name, load(path).name, list(load(path).flows)) == ("my_orders.py", "my-orders", ["copy"])
    with pytest.raises(FileExistsError):
        new("my-orders", tmp_path, "localhost:9092")
    with pytest.raises(ConfigError, match="no name for a pipeline"):
        new("../orders", tmp_path, "localhost:9092")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"serverz": "x"}, "serverz is no word of a pipeline; did you mean servers"),
        ({"flows": {"f": flow(kind="dedupliated")}}, "flow f: kind 'dedupliated' .* did you mean deduplicated"),
        ({"flows": {"f": flow(sourc="x")}}, "flow f: sourc is no word of deduplicated; did you mean source"),
        ({"flows": {"f": {"kind": "lake"}}}, "flow f: lake needs source, path"),
        ({"flows": {"f": {"kind": "files_in", "path": "p", "sink": "s", "format": "xml"}}}, "format xml is none of"),
        ({"flows": {"f": {"kind": "mirror", "source_servers": "s"}}}, "either topics or pattern"),
        (
            {"flows": {"f": {"kind": "sql", "query": "SELECT 1", "sources": ["a.b", "c", "a-b"], "sink": "s"}}},
            "topics a.b and a-b have the same name as views",
        ),
    ],
)
def test_mistakes_are_named(spec: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_spec(spec, default_name="orders")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "x = ", "a.toml: "),
        ("a.yml", "", "neither Python"),
        ("a.py", "x = 1", "has no pipelines"),
        (
            "a.py",
            "from barnabas.spark.pipelines import Pipeline\none = Pipeline('1')\ntwo = Pipeline('2')",
            "has 2 pipelines",
        ),
    ],
)
def test_files_that_are_no_pipeline(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        load(tmp_path / name)


def test_every_kind_says_what_it_is() -> None:
    assert all((make.__doc__ or "").strip() for make in KINDS.values())


def test_the_reason_is_what_python_said() -> None:
    text = "[STREAM_FAILED] Query x\nTraceback\n  File 'x', line 1\nValueError: it is broken\n\tat org.apache.X"
    assert reason_of(RuntimeError(text)) == "ValueError: it is broken"
    assert reason_of(RuntimeError("no way")) == "no way"
    java = "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Python worker failed\n\tat x"
    assert reason_of(RuntimeError(java)) == "SparkException: Python worker failed"
    late = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back. SQLSTATE: X"
    assert reason_of(RuntimeError(late + "\n=== Streaming Query ===\nThread State: RUNNABLE")) == (
        "Python worker failed to connect back."
    )
