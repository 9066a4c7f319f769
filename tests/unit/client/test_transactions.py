"""The states of a producer's transactions, with a coordinator that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from barnabas.client.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortableError,
    error_of,
)
from barnabas.client.producing.accumulator import Accumulator
from barnabas.client.producing.transaction import State, Transactions
from barnabas.client.settings import ProducerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.simulation.loop import VirtualLoop
from barnabas.types import TopicPartition

TOO_LARGE = error_of(ErrorCode.MESSAGE_TOO_LARGE)


class Bench:
    """The cluster and the sender of a producer, which ask the test."""

    def __init__(self, version: int = 2) -> None:
        self.features = {"transaction.version": version}
        self.asked: list[Message] = []
        self.silent: type[Message] | None = None  # such requests have no answer until `speak`
        self.speak = asyncio.Event()
        self.epoch = 0
        self.version_max: int | None = None
        self.has_sent = False
        self.on_waiting: Callable[[], None] = lambda: None
        config = ProducerConfig(bootstrap_servers="x:1", transactional_id="id", max_block_ms=1000)
        self.accumulator = Accumulator(
            batch_size=100,
            linger_ms=0,
            delivery_timeout_ms=10_000,
            retries=3,
            is_idempotent=True,
            is_transactional=True,
        )
        self.transactions = Transactions(self, self.accumulator, self, config)  # type: ignore[arg-type]

    def wake(self) -> None: ...

    async def coordinator(self, _kind: int, _key: str) -> int:
        return 1

    async def retry(self, attempt: Callable[[], Awaitable[Any]], *, what: str, timeout_ms: float, **_more: Any) -> Any:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await attempt()
        except TimeoutError:
            raise KafkaTimeoutError(what) from None

    async def request(self, _node_id: int, request: Message, **_bounds: Any) -> Message:
        self.asked.append(request)
        if isinstance(request, self.silent or ()):
            await self.speak.wait()
        match request:
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)
            case EndTxnRequest():
                return EndTxnResponse(producer_id=7, producer_epoch=request.producer_epoch + 1)
            case AddPartitionsToTxnRequest():
                return AddPartitionsToTxnResponse()
        raise AssertionError(request)

    def asked_for(self, kind: type[Message]) -> int:
        return sum(isinstance(each, kind) for each in self.asked)

    async def begin(self) -> Transactions:
        await self.transactions.initialise()
        self.transactions.begin()
        self.has_sent = True
        return self.transactions


async def done() -> None:
    """A flush that had nothing to do."""


def play(scenario: Callable[[Bench], Coroutine[Any, Any, None]], version: int = 2) -> None:
    async def run() -> None:
        async with asyncio.timeout(3600):
            await scenario(Bench(version))

    VirtualLoop().run(run())


def test_a_record_that_fails_while_the_commit_waits_for_others_is_not_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()

        async def flush() -> None:
            transactions.failed(TOO_LARGE)
            raise KafkaTimeoutError("another partition is slow")

        with pytest.raises(KafkaTimeoutError):
            await transactions.commit(flush)
        with pytest.raises(TransactionAbortableError, match="abort it"):
            await transactions.commit(done)
        assert bench.asked_for(EndTxnRequest) == 0
        await transactions.abort(done)
        transactions.begin()

    play(scenario)


@pytest.mark.parametrize("error", [KafkaTimeoutError("slow"), asyncio.CancelledError()])
def test_a_commit_that_did_not_get_to_its_end_leaves_the_transaction_open(error: BaseException) -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()

        async def flush() -> None:
            raise error

        with pytest.raises(type(error)):
            await transactions.commit(flush)
        transactions.check_sending()
        await transactions.commit(done)
        assert transactions.state is State.READY

    play(scenario)


def test_an_end_that_nobody_knows_of_is_ended_the_same_way() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        bench.silent = EndTxnRequest
        with pytest.raises(KafkaTimeoutError):
            await transactions.commit(done)
        with pytest.raises(IllegalStateError, match="being committed"):
            await transactions.abort(done)
        bench.silent = None
        await transactions.settle(done)
        assert [each.committed for each in bench.asked if isinstance(each, EndTxnRequest)] == [True, True]
        transactions.begin()

    play(scenario)


def test_two_tasks_cannot_end_one_transaction() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        bench.silent = EndTxnRequest
        first = asyncio.get_running_loop().create_task(transactions.commit(done))
        await asyncio.sleep(0.1)
        for call in (transactions.commit(done), transactions.abort(done), transactions.detach(done)):
            with pytest.raises(IllegalStateError, match="another task is about to commit"):
                await call
        bench.speak.set()
        await first
        assert bench.asked_for(EndTxnRequest) == 1

    play(scenario)


def test_nothing_ends_while_offsets_are_sent() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        bench.silent = AddOffsetsToTxnRequest
        sending = transactions.send_offsets({TopicPartition("t", 0): 3}, "g")
        task = asyncio.get_running_loop().create_task(sending)
        await asyncio.sleep(0.1)
        with pytest.raises(IllegalStateError, match="send offsets"):
            await transactions.commit(done)
        with pytest.raises(KafkaTimeoutError):
            await task
        await transactions.abort(done)

    play(scenario, version=1)


def test_a_partition_is_not_let_into_the_next_transaction_by_a_late_answer() -> None:
    """Nor is the coordinator told of the end before it has answered: it would begin another transaction."""

    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        lane = bench.accumulator.lane("t", 0)
        bench.accumulator.open_batch(lane, 10, 0).append(None, b"v", None, 0, 10)
        bench.silent = AddPartitionsToTxnRequest
        bench.on_waiting()
        await asyncio.sleep(0.1)
        aborting = asyncio.get_running_loop().create_task(transactions.abort(done))
        await asyncio.sleep(0.1)
        assert bench.asked_for(EndTxnRequest) == 0
        bench.speak.set()
        await aborting
        transactions.begin()
        assert not lane.is_admitted

    play(scenario, version=1)


def test_a_transaction_that_ended_is_not_ended_again_for_the_sake_of_the_next_epoch() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        bench.accumulator.lane("t", 0).is_doubtful = True
        bench.silent = InitProducerIdRequest

        async def same_epoch(_node_id: int, request: Message, **_bounds: Any) -> Message:
            if isinstance(request, EndTxnRequest):
                bench.asked.append(request)
                return EndTxnResponse()  # as before version 2
            return await Bench.request(bench, _node_id, request)

        bench.request = same_epoch  # type: ignore[method-assign]
        with pytest.raises(KafkaTimeoutError):
            await transactions.commit(done)
        bench.silent = None
        await transactions.commit(done)
        assert bench.asked_for(EndTxnRequest) == 1

    play(scenario, version=1)


def test_a_record_that_waited_is_not_sent_in_the_next_transaction() -> None:
    async def scenario(bench: Bench) -> None:
        transactions = await bench.begin()
        number = transactions.check_sending()
        assert transactions.check_sending(number) == number
        await transactions.commit(done)
        transactions.begin()
        with pytest.raises(KafkaError, match="ended before there was room"):
            transactions.check_sending(number)

    play(scenario)
