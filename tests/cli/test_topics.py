"""`barnabas topic`, `cluster` and `quorum` on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from barnabas.cli.session import complete_groups, complete_topics

Run = Callable[..., Any]
Name = Callable[..., str]


def test_create_describe_alter_delete(run: Run, name: Name) -> None:
    topic, other = name("one"), name("two")
    made = run("topic", "create", topic, other, "--partitions", "3", "--config", "retention.ms=1000", "--json").document
    assert [(each["name"], each["partitions"], each["replication_factor"]) for each in made["topics"]] == [
        (topic, 3, 1),
        (other, 3, 1),
    ]
    assert {topic, other} <= set(run("topic", "list").out.split())
    listed = {each["name"]: each for each in run("topic", "list", "--json").document["topics"]}
    assert listed[topic]["partitions"] == 3
    said = run("topic", "describe", topic, "--with-config", "--offsets").out
    assert said.startswith(f"{topic}: 3 partitions, 1 replica of each")
    assert "retention.ms=1000" in said
    assert said.splitlines()[-1].split() == ["2", "1", "1", "1", "-", "0", "0"]
    assert (
        run("topic", "alter", topic, "--partitions", "5", "--delete-config", "retention.ms").out
        == f"altered: {topic}\n"
    )
    (described,) = run("topic", "describe", topic, "--with-config", "--json").document["topics"]
    assert described["partition_count"] == 5
    assert "retention.ms" not in described["configs"]
    assert described["partitions"][4]["leader"] == 1
    assert run("topic", "describe", topic, "--under-replicated-partitions", "--json").document == {"topics": []}
    assert run("topic", "delete", topic, other).out == f"deleted: {topic}\ndeleted: {other}\n"
    assert topic not in run("topic", "list").out


def test_internal_topics_are_shown_where_they_are_asked_for(run: Run, topic: Name) -> None:
    run("consume", topic("x"), "--group", "internal-topics")
    assert "__consumer_offsets" not in run("topic", "list").out
    assert "__consumer_offsets" in run("topic", "list", "--internal").out


def test_topics_that_exist_or_do_not(run: Run, topic: Name) -> None:
    existing = topic()
    assert "TOPIC_ALREADY_EXISTS" in run("topic", "create", existing, code=1).err
    assert run("topic", "create", existing, "--if-not-exists", "--json").document["existed"] == [existing]
    typed = f"{existing}x"
    for words in (["describe", typed], ["delete", typed], ["alter", typed, "--partitions", "3"]):
        assert run("topic", *words, code=4).err == f"barnabas: there is no topic {typed} (did you mean {existing}?)\n"
    assert run("topic", "delete", typed, "--if-exists").out == f"does not exist: {typed}\n"


def test_what_the_broker_refuses(run: Run, topic: Name, name: Name) -> None:
    existing = topic()
    assert "INVALID_PARTITIONS" in run("topic", "alter", existing, "--partitions", "1", code=1).err
    refused = run("topic", "alter", existing, "--config", "retntion.ms=5", code=1).err
    assert "did you mean retention.ms?" in run("topic", "alter", existing, "--delete-config", "retntion.ms", code=1).err
    assert "or equal to 32767" in run("topic", "create", name("wide"), "--replication-factor", "99999", code=2).err
    assert "INVALID_CONFIG" in refused
    assert "did you mean retention.ms?" in refused
    failed = run("topic", "create", "bad name", "--json", code=1).document["failed"]
    assert failed["bad name"]["code"] == "INVALID_TOPIC_EXCEPTION"
    assert "INVALID_REPLICATION_FACTOR" in run("topic", "create", name("wide"), "--replication-factor", "3", code=1).err
    planned = name("dry")
    assert run("topic", "create", planned, "--validate-only").out.startswith(f"could be created: {planned}")
    assert planned not in run("topic", "list").out


def test_the_cluster(run: Run) -> None:
    described = run("cluster", "describe", "--with-config", "--json").document
    assert [(each["node_id"], each["is_fenced"]) for each in described["brokers"]] == [(1, False)]
    assert described["brokers"][0]["configs"]["node.id"] == "1"
    assert described["features"]["metadata.version"] > 0
    assert described["controller_id"] == run("quorum", "describe", "--json").document["leader_id"]
    assert "cluster " in run("cluster", "describe").out
    assert run("cluster", "status", "--json").document["problems"] == []
    assert run("cluster", "status").out.endswith("ok\n")


def test_the_quorum(run: Run) -> None:
    quorum = run("quorum", "describe", "--json").document
    assert (quorum["leader_id"], quorum["replicas"][0]["role"], quorum["replicas"][0]["lag"]) == (1, "leader", 0)
    assert run("quorum", "describe").out.startswith("leader 1, epoch")
    assert "does not vote; voters are 1" in run("quorum", "remove-voter", "7", code=4).err
    directory = "9N6y3XqLS7WUnw5H6YHqgg"
    added = ["quorum", "add-voter", "7", "--directory-id", directory, "--endpoint", "CONTROLLER://127.0.0.1:1"]
    assert run(*added, "--timeout-ms", "3000", code=1).err.startswith("barnabas: adding voter 7: ")


def test_a_file_says_where_and_how(run_alone: Run, served_by_either: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={served_by_either}\nrequest.timeout.ms=20000\n")
    asked = ["--command-config", str(file)]
    assert run_alone("cluster", "describe", *asked, "--json").document["brokers"][0]["node_id"] == 1
    assert run_alone("bench", "--records", "10", *asked, "--json").document["records"] == 10
    assert run_alone("doctor", "--data", str(tmp_path), *asked, "--json").document["wrong"] == 0
    file.write_text("request.timout.ms=20000\n")
    assert f"{file}, line 1: " in run_alone("topic", "list", *asked, code=2).err
    assert "there is no file" in run_alone("topic", "list", "--command-config", str(tmp_path / "none"), code=4).err


def test_nobody_there(run_alone: Run) -> None:
    said = run_alone("topic", "list", "--bootstrap-server", "127.0.0.1:1", "--timeout-ms", "300", code=3)
    assert "no broker answered at 127.0.0.1:1 within 300 ms" in said.err
    assert said.err.count("\n") == 1
    said = run_alone("topic", "list", "-b", "127.0.0.1:1", "--timeout-ms", "300", "--json", code=3)
    assert '"code": "REQUEST_TIMED_OUT"' in said.err
    assert run_alone("produce", "t", "-b", "127.0.0.1:1", "--value", "x", "--timeout-ms", "300", code=3).out == ""
    assert run_alone("consume", "t", "-b", "127.0.0.1:1", "--timeout-ms", "300", code=3).out == ""


def test_shells_complete_names(topic: Name) -> None:
    existing = topic()
    assert complete_topics(SimpleNamespace(params={}), existing) == [existing]
    assert complete_groups(SimpleNamespace(params={}), "nothing-of-the-kind") == []
    assert complete_topics(SimpleNamespace(params={"bootstrap_server": "127.0.0.1:1"}), "") == []
