"""`barnabas produce`, `consume`, `group` and `bench` on a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Name = Callable[..., str]


def test_lines_in_lines_out(run: Run, topic: Name) -> None:
    made = topic()
    run("produce", made, text="one\ntwo\n\nlast, without an end")
    assert run("consume", made).out == "one\ntwo\n\nlast, without an end\n"
    assert run("consume", made, "--from-beginning", "--max-messages", "2").out == "one\ntwo\n"


def test_keys_headers_and_tombstones(run: Run, topic: Name) -> None:
    made = topic()
    separated = ["--key-separator", ":", "--null-marker", "NULL", "--header", "a=1", "--header", "b=2"]
    said = run("produce", made, *separated, "--rate", "1000", "--json", text="k:v:w\nk:NULL\n")
    assert said.document == {"topic": made, "records": 2}
    assert run("consume", made, "--format", r"%p/%o %k=%v(%V) %h\n").out == "0/0 k=v:w(3) a=1,b=2\n0/1 k=(-1) a=1,b=2\n"
    assert "line 2 has no ':'" in run("produce", made, "--key-separator", ":", code=1, text="a:b\nnothing\n").err


def test_json_goes_round(run: Run, topic: Name) -> None:
    made, copy = topic(partitions=2), topic(partitions=2)
    given = {"key": "k", "value": {"base64": "/w=="}, "headers": [["h", None]], "partition": 1, "timestamp_ms": 5}
    run("produce", made, "--format", "json", text=json.dumps(given) + "\n\n" + json.dumps({"value": {"a": 1}}) + "\n")
    out = run("consume", made, "--json").out
    run("produce", copy, "--format", "json", text=out)
    first = {each["timestamp_ms"]: each for each in run("consume", copy, "--json").documents}[5]
    assert first == {**given, "topic": copy, "offset": 0}
    for wrong, words in (
        ("[]", "an object is wanted"),
        ('{"valeu": "a"}', "valeu is nothing that a record has (did you mean value?)"),
        ('{"partition": "0"}', "partition: '0' is none"),
        ('{"timestamp_ms": 1.5}', "timestamp_ms: 1.5 is none"),
    ):
        said = run("produce", made, "--format", "json", code=1, text=f"{wrong}\n").err
        assert said == f"barnabas: line 1 is no record in JSON: {words}\n"


def test_files(run: Run, topic: Name, tmp_path: Path) -> None:
    made = topic()
    lines, whole = tmp_path / "lines", tmp_path / "whole"
    lines.write_bytes(b"".join(b"%d\r\n" % number for number in range(20_000)))
    whole.write_bytes(b"a\nb\xff")
    run("produce", made, "--file", str(lines), "--compression-codec", "lz4")
    run("produce", made, "--value-file", str(whole))
    assert run("consume", made, "--until", "20000").out.split() == [str(number) for number in range(20_000)]
    assert run("consume", made, "--from", "20000", "--json").document["value"] == {"base64": "YQpi/w=="}
    assert run("produce", made, "--file", str(tmp_path / "none"), code=4).err.startswith("barnabas: there is no file")
    assert run("produce", made, "--file", str(tmp_path), code=1).err == f"barnabas: {tmp_path}: Is a directory\n"


def test_options_that_contradict_each_other_or_say_nothing(run: Run, five: str, name: Name) -> None:
    twice = [
        ["produce", five, "--value", "a", "--file", "b"],
        ["produce", five, "--value", "a", "--format", "json", "--null-marker", "N"],
        ["consume", five, "--json", "--format", "%v"],
        ["group", "reset-offsets", "g", "--topic", five, "--to-latest", "--dry-run", "--execute"],
    ]
    for words in twice:
        assert "leave one out" in run(*words, code=2).err
    assert "must not be empty" in run("produce", five, "--key-separator", "", "--value", "a:b", code=2).err
    assert "'odd' is not one of 'assigning'" in run("group", "list", "--state", "odd", code=2).err
    shifted = run("group", "reset-offsets", name("none"), "--topic", five, "--shift-by", "1", code=4)
    assert f"there is no offset to shift for {five}-0" in shifted.err
    assert run("consume", five, "--from", "1900-01-01", "--format", "%v").out == "abcde"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--from", "beginning"], "abcde"),
        (["--from", "3"], "de"),
        (["--from", "-2"], "de"),
        (["--from", "99"], ""),
        (["--until", "2"], "ab"),
        (["--from", "1", "--until", "-1"], "bcd"),
        (["--from", "1h"], "abcde"),
        (["--from", "2100-01-01"], ""),
        (["--until", "2000-01-01T00:00:00Z"], ""),
        (["--from", "1", "--max-messages", "1"], "b"),
        (["--follow", "--from", "4", "--idle-ms", "50"], "e"),
        (["--follow", "--idle-ms", "50"], ""),
        (["--follow", "--from", "0", "--until", "2"], "ab"),
        (["--partition", "0", "--isolation-level", "read_committed"], "abcde"),
    ],
)
def test_from_and_until(words: list[str], expected: str, run: Run, five: str) -> None:
    assert run("consume", five, "--format", "%v", *words).out == expected


@pytest.fixture(scope="module")
def five_topics() -> dict[str, str]:
    return {}


@pytest.fixture
def five(five_topics: dict[str, str], served_by_either: str, topic: Name) -> str:
    """Made once on each broker: reading does not change it."""
    if served_by_either not in five_topics:
        five_topics[served_by_either] = topic("a", "b", "c", "d", "e")
    return five_topics[served_by_either]


def test_names_that_do_not_exist(run: Run, five: str) -> None:
    assert "did you mean" in run("consume", five + "x", code=4).err
    assert "has no partition 4" in run("consume", five, "--partition", "4", code=4).err
    assert "partition 9" in run("produce", five, "--partition", "9", "--value", "x", "--timeout-ms", "500", code=4).err


def test_groups(run: Run, topic: Name, name: Name) -> None:
    made, group = topic("a", "b", "c", partitions=2), name("group")
    assert run("consume", made, "--group", group, "--max-messages", "2").out == "a\nb\n"
    assert run("consume", made, "--group", group).out == "c\n"
    assert run("consume", made, "--group", group).out == ""
    assert group in run("group", "list").out.split()
    listed = {each["group_id"]: each for each in run("group", "list", "--json").document["groups"]}
    assert (listed[group]["kind"], listed[group]["state"]) == ("classic", "Empty")
    assert run("group", "list", "--state", "Stable", "--type", "consumer").out == ""
    (described,) = run("group", "describe", group, "--json").document["groups"]
    by_partition = {each["partition"]: each for each in described["offsets"]}
    assert (by_partition[0]["current_offset"], by_partition[0]["lag"]) == (3, 0)
    assert f"{group}: classic group, Empty, 0 members" in run("group", "describe", group, "--members").out
    assert run("group", "describe", group, "--state").out.count("\n") == 1

    shown = run("group", "reset-offsets", group, "--topic", f"{made}:0", "--shift-by", "-2")
    assert shown.out.splitlines()[1].split() == [made, "0", "3", "1"]
    assert "nothing was changed" in shown.err
    assert run("consume", made, "--group", group).out == ""
    done = run("group", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute", "--json").document
    assert done["executed"]
    assert {each["new_offset"] for each in done["offsets"]} == {0}
    assert run("consume", made, "--group", group).out == "a\nb\nc\n"
    assert "there is no such member" in run("group", "remove-members", group, "--instance-id", "x", code=1).err
    assert "forgotten" in run("group", "delete-offsets", group, "--topic", made).out
    assert run("group", "delete", group, "--json").document == {"deleted": [group], "failed": {}}
    for words in (["describe", group], ["delete", group], ["remove-members", group]):
        assert f"there is no group {group}" in run("group", *words, code=4).err


def test_offsets_for_a_group_that_is_yet_to_come(run: Run, five: str, name: Name) -> None:
    group = name("future")
    run("group", "reset-offsets", group, "--topic", five, "--to-offset", "3", "--execute")
    assert run("consume", five, "--group", group, "--format", "%v").out == "de"


def test_bench(run: Run) -> None:
    measured = run("bench", "--records", "2000", "--record-size", "10", "--partitions", "2", "--json").document
    assert measured["produce"]["records_per_second"] > 0
    assert measured["consume"]["records_per_second"] > 0
    assert measured["latency"]["p99_ms"] >= measured["latency"]["p50_ms"] > 0
    assert measured["topic"] not in run("topic", "list").out


def test_a_reader_that_stops_reading_is_no_failure_to_speak_of(
    run: Run, topic: Name, served_by_either: str, tmp_path: Path
) -> None:
    made = topic()
    lines = tmp_path / "lines"
    lines.write_text("line\n" * 50_000)
    run("produce", made, "--file", str(lines))
    command = [sys.executable, "-m", "barnabas", "consume", made, "-b", served_by_either]
    consumer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"line\n"
    consumer.stdout.close()
    assert consumer.stderr is not None
    assert consumer.stderr.read() == b""
    assert consumer.wait(120) == 141
    consumer.stderr.close()


def test_ctrl_c_leaves_the_group_and_ends(run: Run, topic: Name, name: Name, served_by_either: str) -> None:
    made, group = topic("a"), name("interrupted")
    command = [sys.executable, "-m", "barnabas", "consume", made, "--group", group, "--follow", "-b", served_by_either]
    command += ["--from-beginning"]
    consumer = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it in what they run behind
    )
    assert consumer.stdout is not None
    assert consumer.stderr is not None
    assert consumer.stdout.readline() == b"a\n"
    consumer.send_signal(signal.SIGINT)
    assert consumer.wait(120) == 130
    assert consumer.stderr.read() == b""
    consumer.stdout.close()
    consumer.stderr.close()
    (described,) = run("group", "describe", group, "--json").document["groups"]
    assert (described["state"], described["offsets"][0]["current_offset"]) == ("Empty", 1)
