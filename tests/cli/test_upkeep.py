"""`barnabas reassign`, `transactions`, `doctor` and `log` on a real broker and its files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_disk as mounted
from broker_process import BrokerProcess
from transaction_wire import leave_hanging
from wire import Wire

from barnabas.client.producing.producer import Producer

Run = Callable[..., Any]
Name = Callable[..., str]

small_disk = mounted.small_disk


def test_reassign(run: Run, topic: Name, tmp_path: Path) -> None:
    made = topic(partitions=2)
    file = tmp_path / "plan.json"
    plan = run("reassign", "generate", made, "--broker-list", "1")
    file.write_text(plan.out)
    assert [each["replicas"] for each in plan.document["partitions"]] == [[1], [1]]
    done = run("reassign", "execute", str(file), "--json").document
    assert len(done["started"]) == 2
    assert done["before"] == plan.document
    assert json.loads(run("reassign", "execute", str(file)).out) == plan.document
    assert run("reassign", "list").err == "nothing is being moved\n"
    assert run("reassign", "list", "--json").document == {"reassignments": []}
    assert run("reassign", "verify", str(file), "--json").document["done"]
    assert run("reassign", "cancel", str(file)).out == "0 cancelled, 2 were not being moved\n"
    assert run("reassign", "elect", made).out == "0 elected, 2 had the right leader already\n"
    assert run("reassign", "elect", "--json").document["failed"] == {}


def test_plans_that_are_none(run: Run, topic: Name, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for content in ("", "{}", '{"partitions": 5}', '{"partitions": [{"topic": "t"}]}', '{"partitions": []}'):
        file.write_text(content)
        assert str(file) in run("reassign", "verify", str(file), code=2).err
    assert "there is no file" in run("reassign", "execute", str(tmp_path / "none"), code=4).err
    made = topic()
    assert "there is no broker 9" in run("reassign", "generate", made, "--broker-list", "1,9", code=4).err
    file.write_text(json.dumps({"partitions": [{"topic": made, "partition": 0, "replicas": [9]}]}))
    assert run("reassign", "execute", str(file), "--json", code=1).document["failed"]
    assert run("reassign", "verify", str(file), code=1).out.endswith("elsewhere\n")
    assert "preferred or unclean" in run("reassign", "elect", "--election-type", "odd", code=2).err


def test_transactions(run: Run, topic: Name, name: Name, served_by_either: str) -> None:
    made, transactional_id = topic(), name("transaction")
    absent = run("transactions", "describe-producers", made, "--broker-id", "9", code=4)
    assert absent.err == "barnabas: there is no broker 9, but 1\n"

    async def leave_one_open() -> None:
        producer = Producer(bootstrap_servers=served_by_either, transactional_id=transactional_id)
        await producer.start()
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_and_wait(made, b"open")
        await producer.detach_transaction()
        await producer.close()

    asyncio.run(leave_one_open())
    listed = {each["transactional_id"]: each for each in run("transactions", "list", "--json").document["transactions"]}
    assert listed[transactional_id]["state"] == "Ongoing"
    assert transactional_id in run("transactions", "list", "--state", "Ongoing").out
    described = run("transactions", "describe", transactional_id, "--json").document
    assert described["partitions"] == [{"topic": made, "partition": 0}]
    assert f"partitions: {made}-0" in run("transactions", "describe", transactional_id).out
    (producer,) = run("transactions", "describe-producers", made, "--json").document["producers"]
    assert producer["transaction_start_offset"] == 0
    assert str(producer["producer_id"]) in run("transactions", "describe-producers", made).out
    words = ["transactions", "find-hanging", "--topic", made, "--max-transaction-timeout", "0", "--json"]
    assert run(*words).document == {"hanging": []}, "its coordinator knows of it"
    assert "open ones begin at 0" in run("transactions", "abort", made, "--start-offset", "5", code=4).err
    assert run("consume", made, "--isolation-level", "read_committed").out == ""
    aborted = run("transactions", "abort", made, "--start-offset", "0", "--json").document["aborted"]
    assert aborted["producer_id"] == producer["producer_id"]
    assert run("consume", made).out == "open\n"
    assert run("consume", made, "--isolation-level", "read_committed").out == ""
    assert run("transactions", "fence", transactional_id).out == f"fenced: {transactional_id}\n"
    for command in ("describe", "fence"):
        said = run("transactions", command, transactional_id + "x", code=4)
        assert "did you mean" in said.err


def test_a_hanging_transaction(run: Run, topic: Name, name: Name, served_by_either: str) -> None:
    """One that its coordinator does not know: readers of committed records wait behind it until it is aborted."""
    made = topic()
    words = ["transactions", "find-hanging", "--topic", made]
    with Wire(served_by_either) as wire:
        producer_id, _epoch = leave_hanging(wire, name("hanging"), made)
    run("produce", made, "--value", "behind it")
    assert run("consume", made, "--isolation-level", "read_committed").out == ""
    (found,) = run(*words, "--json", code=1).document["hanging"]
    assert (found["topic"], found["producer_id"], found["start_offset"]) == (made, producer_id, 0)
    assert str(producer_id) in run(*words, code=1).out
    aborted = run("transactions", "abort", made, "--start-offset", "0")
    assert aborted.out == f"aborted: the transaction of producer {producer_id} in {made}-0\n"
    assert run(*words).err == "none hangs\n"
    assert run("consume", made, "--isolation-level", "read_committed").out == "behind it\n"


def test_doctor(run: Run, tmp_path: Path, served_by_either: str) -> None:
    found = run("doctor", "--data", str(tmp_path), "--json").document
    names = {each["name"]: each for each in found["checks"]}
    assert found["wrong"] == 0
    assert names["clock"]["status"] == "ok"
    assert names[f"broker 1 at {served_by_either}"]["status"] == "ok"
    assert "reachable" in run("doctor", "--data", str(tmp_path)).out
    said = run("doctor", "--data", str(tmp_path), "-b", "127.0.0.1:1", "--timeout-ms", "300", code=1)
    assert "no broker answered" in said.out
    assert "barnabas up" in said.out


def test_an_advertised_address_that_nobody_reaches(run_alone: Run, tmp_path: Path) -> None:
    config = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    with BrokerProcess(config=config) as lying:
        said = run_alone("doctor", "--data", str(tmp_path), "-b", lying.address, "--timeout-ms", "2000", code=1)
    assert "broker 1 at 127.0.0.1:1" in said.out
    assert "set advertised.listeners" in said.out


def test_a_full_disk(run_alone: Run, small_disk: Path) -> None:
    with BrokerProcess(data=small_disk) as broker:
        said = run_alone("cluster", "status", "-b", broker.address, code=1)
        assert f"wrong: directory {broker.node_directory} of broker 1: the disk is full, or soon will be" in said.out
        assert "ok" not in said.out.splitlines()
        (problem,) = run_alone("cluster", "status", "-b", broker.address, "--json", code=1).document["problems"]
        assert "64 MiB are needed" in problem


def test_logs(run_alone: Run, tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        run_alone("produce", "letters", "-b", broker.address, "--key-separator", ":", text="a:1\nb:2\n")
        run_alone("consume", "letters", "-b", broker.address, "--group", "readers")
        assert run_alone("log", "verify", str(broker.node_directory)).code == 0
        directory = broker.node_directory
    lines = run_alone("log", "dump", str(directory / "letters-0"), "--print-data-log", "--json").documents
    records = [line for line in lines if "key" in line]
    assert [(line["offset"], line["key"], line["value"]) for line in records] == [(0, "a", "1"), (1, "b", "2")]
    batches = [line for line in lines if "base_offset" in line]
    assert all(line["valid"] for line in batches)
    text = run_alone(
        "log", "dump", str(directory / "letters-0"), "--print-data-log", "--from", "1", "--max-messages", "2"
    ).out
    assert text.rstrip().endswith("key=b value=2 headers={}")
    metadata = run_alone("log", "dump", str(directory / "__cluster_metadata-0"), "--print-data-log").out
    assert '"TopicRecord": {"name": "letters"' in metadata
    assert "leader_change" in metadata
    groups = "".join(
        run_alone("log", "dump", str(path), "--print-data-log").out
        for path in sorted(directory.glob("__consumer_offsets-*"))
    )
    assert '"group": "readers"' in groups
    assert "key=letters" not in groups
    assert run_alone("log", "verify", str(directory), "--deep-iteration", "--json").document["findings"] == []
    log = directory / "letters-0" / f"{0:020d}.log"
    damaged = bytearray(log.read_bytes())
    damaged[-1] ^= 1
    log.write_bytes(damaged)
    said = run_alone("log", "verify", str(directory), code=1)
    assert "the checksum does not match" in said.out
    log.write_bytes(bytes(damaged)[:-5])
    assert "warning" in run_alone("log", "verify", str(directory)).out
    assert "no batch can be read at position 0" in run_alone("log", "dump", str(log), code=1).err
    assert run_alone("log", "dump", str(tmp_path / "none"), code=4).err.startswith("barnabas: there is no file")
    assert (
        "holds no file of a segment"
        in run_alone("log", "verify", str(tmp_path / "node-1" / "meta.properties"), code=4).err
    )
