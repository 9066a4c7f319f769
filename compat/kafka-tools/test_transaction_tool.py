"""Kafka's own tool for transactions: it lists and describes them, and finds and ends one that hangs.

The same is done to Apache Kafka, and the tool must print the same.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
import transaction_wire as transactions
from apache_kafka import ApacheKafka, run_tool
from broker_process import BrokerProcess, wait_until
from transaction_wire import add, begin, describe, end, leave_hanging, write
from wire import Wire, create_topic, leaders

from barnabas.errors import ErrorCode as E

TOOL = "org.apache.kafka.tools.TransactionsCommand"
Broker = BrokerProcess | ApacheKafka
Both = Callable[..., tuple[str, str]]
_numbers = itertools.count(1)
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
# What two brokers cannot have in common: ids of producers, moments, who coordinates, and how wide that makes a column.
VARIABLE = re.compile(r"\d+")


@pytest.fixture
def name(barnabas: BrokerProcess, kafka: ApacheKafka) -> str:
    """Of a topic in which a transaction is open, and of its transactional id."""
    chosen = f"open-{next(_numbers)}"
    for broker in (barnabas, kafka):
        with Wire(broker.address) as wire:
            create_topic(wire, chosen)
            wait_until(lambda wire=wire: leaders(wire, chosen), f"{chosen} is known")
            transactions.await_coordinator(wire, chosen)
            producer = begin(wire, chosen)
            assert add(wire, chosen, producer, {chosen: [0]}) == {(chosen, 0): E.NONE}
            write(wire, chosen, producer, chosen)
    return chosen


def shape(printed: str) -> list[list[str]]:
    """The words of each line, numbers aside."""
    return [VARIABLE.sub("N", line).split() for line in printed.splitlines()]


def run(broker: Broker, *arguments: str) -> str:
    return run_tool(TOOL, "--bootstrap-server", broker.address, *arguments)


def test_open_transactions_are_described(both: Both, name: str) -> None:
    for arguments in (
        ("describe", "--transactional-id", name),
        ("describe-producers", "--topic", name, "--partition", "0"),
    ):
        ours, theirs = both(TOOL, "--bootstrap-server", "{bootstrap}", *arguments)
        assert shape(ours) == shape(theirs)
        assert len(ours.splitlines()) >= 2


def test_all_are_listed(barnabas: BrokerProcess, kafka: ApacheKafka, name: str) -> None:
    lines = []
    for broker in (barnabas, kafka):
        listed = run(broker, "list").splitlines()
        lines.append([shape(listed[0]), *(shape(line) for line in listed if line.startswith(f"{name} "))])
    assert lines[0] == lines[1]
    assert len(lines[0]) == 2


def test_an_open_one_is_aborted(barnabas: BrokerProcess, kafka: ApacheKafka, name: str) -> None:
    """By its first offset, as one would end what hangs; then nothing is open there."""
    printed = []
    for broker in (barnabas, kafka):
        run(broker, "abort", "--topic", name, "--partition", "0", "--start-offset", "0")
        printed.append(shape(run(broker, "describe-producers", "--topic", name, "--partition", "0")))
        with Wire(broker.address) as wire:
            known = describe(wire, name)
            ended = end(wire, name, (known.producer_id, known.producer_epoch), commit=False, version=4)
            assert ended.error_code == E.NONE
    assert printed[0] == printed[1]
    assert "None" in printed[0][-1]


def test_nothing_hangs(both: Both, barnabas: BrokerProcess) -> None:
    ours, theirs = both(TOOL, "--bootstrap-server", "{bootstrap}", "find-hanging", "--broker-id", "1")
    assert ours.splitlines()[:1] == theirs.splitlines()[:1]


def test_one_that_hangs_is_found_and_ended(barnabas: BrokerProcess, kafka: ApacheKafka) -> None:
    name = f"hanging-{next(_numbers)}"
    printed = []
    for broker in (barnabas, kafka):
        with Wire(broker.address) as wire:
            create_topic(wire, name)
            wait_until(lambda wire=wire: leaders(wire, name), f"{name} is known")
            leave_hanging(wire, name, name)
        found = run(broker, "find-hanging", "--topic", name)
        run(broker, "abort", "--topic", name, "--partition", "0", "--start-offset", "0")
        printed.append((shape(found), shape(run(broker, "find-hanging", "--topic", name))))
    assert printed[0] == printed[1]
    found_lines, left_lines = printed[0]
    assert (len(found_lines), len(left_lines)) == (2, 1)
