"""Transactions a second, and how long one takes from its first record until a consumer with read_committed has it.

    commits           one producer, one record in a transaction, one after the other; and several producers at once
    end to end        produce, commit, and a long poll that sees the record

Raw requests of transaction version 2 over plain sockets, the same bytes to either broker, so that no client's own pace
is measured. Always holds: each figure is of transactions that were committed, markers and all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import transaction_wire as transactions
from broker_process import wait_until
from end_to_end import side
from wire import Wire, create_topic, leaders

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, encode_batch

TOPIC = "transactions"
PRODUCERS = 8
VALUE = bytes(100)
PRODUCE_VERSION, END_VERSION, FETCH_VERSION = 12, 5, 11
READ_COMMITTED = 1
PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
WARM_UP = 50  # transactions


class Producer:
    """One transaction after the other, each of one record."""

    def __init__(self, address: str, number: int) -> None:
        self.wire = Wire(address)
        self.transactional_id = f"bench-{number}"
        self._partition = number % side.PARTITIONS
        transactions.await_coordinator(self.wire, self.transactional_id)
        self._id, self._epoch = transactions.begin(self.wire, self.transactional_id)

    def commit_one(self) -> None:
        batch = encode_batch(
            [Record(0, int(time.time() * 1000), None, VALUE, [])],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(index=self._partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        self._ask(request, PRODUCE_VERSION, lambda answer: answer.responses[0].partition_responses[0].error_code)
        end = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=True,
        )
        ended = self._ask(end, END_VERSION, lambda answer: answer.error_code)
        self._id, self._epoch = ended.producer_id, ended.producer_epoch

    def _ask(self, request, version: int, error_of: Callable):  # type: ignore[no-untyped-def]
        while True:
            answer = self.wire.call(request, version)
            error = error_of(answer)
            if error == ErrorCode.NONE:
                return answer
            assert error in PASSING, ErrorCode(error).name


class Reader:
    """Follows one partition with read_committed."""

    def __init__(self, address: str) -> None:
        self._wire = Wire(address)
        self._offset = 0

    def next(self) -> None:
        """Until there is something new, and past it."""
        while True:
            partition = FetchPartition(partition=0, fetch_offset=self._offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=1000,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=READ_COMMITTED,
                session_epoch=-1,
                topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
            )
            (found,) = self._wire.call(request, FETCH_VERSION).responses[0].partitions
            if found.last_stable_offset > self._offset:
                self._offset = found.last_stable_offset
                return

    def close(self) -> None:
        self._wire.close()


def measure(open_broker: Callable[[Path], side.Broker], seconds: float) -> side.Figures:
    """One fresh broker."""
    with TemporaryDirectory(prefix="barnabas-bench-") as directory, open_broker(Path(directory)) as broker:
        with Wire(broker.address) as wire:
            create_topic(wire, TOPIC, partitions=side.PARTITIONS)
            wait_until(lambda: len(leaders(wire, TOPIC)) == side.PARTITIONS, "the topic is led")
        producers = [Producer(broker.address, number) for number in range(PRODUCERS)]
        for _ in range(WARM_UP):
            producers[0].commit_one()
        figures = {
            "transactions_one": commits_per_second(producers[:1], seconds),
            "transactions_many": commits_per_second(producers, seconds),
        }
        latencies = end_to_end_ms(broker.address, producers[0], seconds)
        figures["transactions_latency"] = median(latencies)
        figures["transactions_latency_p99"] = quantiles(latencies, n=100)[-1]
        for producer in producers:
            producer.wire.close()
        return figures


def commits_per_second(producers: list[Producer], seconds: float) -> float:
    counts = [0] * len(producers)
    deadline = time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < deadline:
            producers[number].commit_one()
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(producers))]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def end_to_end_ms(address: str, producer: Producer, seconds: float) -> list[float]:
    reader = Reader(address)
    reader.next()
    latencies = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(latencies) < WARM_UP:
        began = time.monotonic()
        producer.commit_one()
        reader.next()
        latencies.append((time.monotonic() - began) * 1000)
    reader.close()
    return latencies
