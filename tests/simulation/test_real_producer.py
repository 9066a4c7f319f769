"""Our own producer among the clients of a simulated cluster: what it says is written is there, once and in order."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from fresh_seeds import fresh_seed

from barnabas.client.errors import KafkaError
from barnabas.client.producing.accumulator import Accumulator
from barnabas.client.producing.accumulator import Batch as AccumulatedBatch
from barnabas.client.producing.outcomes import RecordFuture
from barnabas.client.producing.producer import Producer
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.checker import Violation
from barnabas.simulation.history import Batch, PartitionId, ProduceAcknowledged, ProduceAsked, ProduceGivenUp, stamped
from barnabas.simulation.participants import Participant
from barnabas.simulation.run import Options, Simulation
from barnabas.simulation.runtime import simulated_runtime

SECONDS = 8
BURST_MAX = 20


class RealProducer(Participant):
    """Sends bursts of records, and tells the history what became of each."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation._client(name), simulation.board)
        self.random = Random(f"{simulation.seed} {name}")
        self._next_number = 0
        self._simulation = simulation
        self._watches: list[asyncio.Task[None]] = []  # of records whose outcome may not be known yet
        self.failures: dict[str, int] = {}

    def _producer(self) -> Producer:
        simulation = self._simulation
        runtime = simulated_runtime(
            loop=simulation.loop,
            clock=simulation.clock,
            disk=MemoryDisk(now_ms=simulation.clock.now_ms),
            network=simulation.network.host(self.client.name),
            random=self.random,
            sync_ms=lambda: 1.0,
        )
        return Producer(
            runtime=runtime,
            bootstrap_servers=[
                f"{host}:{port}" for host, port in (n.address for n in simulation.cluster.nodes.values())
            ],
            linger_ms=self.random.choice((0, 5, 50)),
            batch_size=self.random.choice((200, 1000, 16_384)),
            request_timeout_ms=self.random.choice((500, 2000)),
            delivery_timeout_ms=self.random.choice((3000, 30_000)),
            max_block_ms=1_000_000,
            retry_backoff_ms=20,
            compression_type=self.random.choice(("none", "gzip")),
        )

    async def run(self) -> None:
        async with self._producer() as self._real:
            await super().run()
            await asyncio.gather(*self._watches)

    async def step(self) -> None:
        self._watches = [task for task in self._watches if not task.done()] + await self._burst(self._real)

    async def _burst(self, producer: Producer) -> list[asyncio.Task[None]]:
        topics = [topic for topic in self.board.topics.values() if topic.name not in self.board.habits.churn_names]
        if not topics:
            return []
        topic = self.random.choice(topics)
        tasks = []
        for _ in range(self.random.randint(1, BURST_MAX)):
            partition_id = self.random.choice(topic.partition_ids())
            batch = self._make(partition_id)
            self.board.history.tell(ProduceAsked(batch=batch))
            try:
                future = await producer.send(topic.name, batch.values[0], partition=partition_id.partition)
            except KafkaError as error:
                self._given_up(batch, error)
            else:
                tasks.append(self._simulation._spawn(self._watch(batch, future)))
        return tasks

    def _make(self, partition_id: PartitionId) -> Batch:
        number, self._next_number = self._next_number, self._next_number + 1
        value = stamped(self.client.name, number, partition_id, self.random.randint(1, 200))
        return Batch(
            partition_id=partition_id,
            writer=self.client.name,
            first_number=number,
            values=(value,),
            acks=-1,
            base_sequence=number,
        )

    async def _watch(self, batch: Batch, future: RecordFuture) -> None:
        try:
            written = await future
        except KafkaError as error:
            self._given_up(batch, error)
        else:
            self.progress += 1
            self.board.history.tell(ProduceAcknowledged(batch=batch, base_offset=written.offset))

    def _given_up(self, batch: Batch, error: KafkaError) -> None:
        self.failures[error.code.name] = self.failures.get(error.code.name, 0) + 1
        self.board.history.tell(ProduceGivenUp(batch=batch))


def play(seed: int, nodes: int) -> RealProducer:
    simulation = Simulation(seed, Options(nodes=nodes, seconds=SECONDS))
    producer = RealProducer(simulation, "real-producer")
    simulation.participants[:] = [producer, simulation.administrator]  # the others have their own tests
    try:
        with simulation.watched_logs():
            simulation.loop.run(simulation.run())
    except Exception as error:
        error.add_note(f"seed {seed}, nodes {nodes}, second {simulation.loop.time():.3f}")
        raise
    return producer


@pytest.mark.parametrize(("nodes", "number"), [(3, 0), (3, 1), (1, 0)])
def test_what_is_acknowledged_is_written_once_and_in_order(nodes: int, number: int) -> None:
    producer = play(fresh_seed(f"real producer {nodes} {number}"), nodes)
    assert producer.progress > 0


def test_a_producer_that_sends_again_out_of_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkers see what the producer does: one that gives each attempt a sequence of its own writes twice."""
    failed = Accumulator.failed

    def forgetful(self: Accumulator, batch: AccumulatedBatch, error: KafkaError, now_ms: float) -> bool:
        again = failed(self, batch, error, now_ms)
        if again:
            batch.base_sequence = -1
        return again

    monkeypatch.setattr(Accumulator, "failed", forgetful)
    for seed in range(20):
        try:
            play(seed, 3)
        except Violation as violation:
            found = str(violation)
            break
    else:
        pytest.fail("nobody noticed")
    assert "real-producer" in found
