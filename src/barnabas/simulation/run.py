"""One seed, one run: a cluster, its clients and its faults, then calm, then the verdict.

    safety     clients work while faults come and go; checkers watch
    liveness   faults end; every node must come up and every client get on, within a limit
    verdict    clients stop; every partition is read from end to end, every topic listed; checkers conclude

Always holds: a run depends on its seed, its options and the code, and on nothing else.
Does not know: the command line, real time.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.simulation.administrator import Administrator
from barnabas.simulation.application import Host
from barnabas.simulation.character import Character, chance_of
from barnabas.simulation.checker import Checker, Promises, Violation
from barnabas.simulation.checkers import all_checkers
from barnabas.simulation.client import METADATA_VERSION, Client, Unavailable
from barnabas.simulation.cluster import EPOCH_MS, SimulatedCluster, SimulatedNode, comes_from_disk_fault
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.copying_application import CopyingApplication
from barnabas.simulation.faults import Nemesis, drawn_network
from barnabas.simulation.final_readers import FinalReaders
from barnabas.simulation.history import Event, History, TopicsListed
from barnabas.simulation.loop import PROCESS, Deadlock, Livelock, ProcessKilled, VirtualClock, VirtualLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.offsets_reader import OffsetsReader
from barnabas.simulation.participants import Board, Participant, Producer
from barnabas.simulation.producing_application import KeyedApplication, ProducingApplication
from barnabas.simulation.reading_application import GroupApplication, ReadingApplication
from barnabas.simulation.trace import Trace
from barnabas.types import Uuid

INSPECTION_INTERVAL_MS = 50.0
READER_TIMEOUT_MS = 60_000.0  # patience for large pieces over narrow networks
READING_PATIENCE = 10  # everything that was ever written goes through the narrowest network
PROGRESS_WANTED = 3
STABLE_TOPICS = ("orders", "payments")  # transactional clients copy the first into the second
TABLE_PARTITIONS_MAX = 2

CRASH, CORRECTNESS, LIVENESS = "crash", "correctness", "liveness"


class NotLive(Exception):
    """Faults are over, and something does not get on."""


class Unexpected(Exception):
    """Something ended, or complained, that had no reason to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    nodes: int = 3
    seconds: float = 20.0  # of the safety phase
    liveness_seconds: float = 120.0  # from the end of the last fault until everybody has got on
    sink: Callable[[str], None] | None = None  # given the trace, line by line


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    kind: str  # crash, correctness or liveness
    message: str
    details: str  # for whoever has to find the reason
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    seed: int
    options: Options
    virtual_seconds: float
    steps: int
    starts: int
    faults: dict[str, int]
    events: dict[str, int]
    digest: str
    failure: Failure | None


def run_seed(seed: int, options: Options | None = None) -> Result:
    simulation = Simulation(seed, options or Options())
    failure: Failure | None = None
    try:
        with simulation.watched_logs():
            simulation.loop.run(simulation.run())
    except Exception as error:
        failure = Failure(
            kind=_kind(error),
            message=f"{type(error).__name__}: {error}",
            details="".join(traceback.format_exception(error)),
            trace=tuple(simulation.trace.lines),
        )
    return simulation.result(failure)


def _kind(error: Exception) -> str:
    if isinstance(error, Violation):
        return CORRECTNESS
    return LIVENESS if isinstance(error, NotLive | Deadlock | Livelock) else CRASH


class Simulation:
    def __init__(self, seed: int, options: Options) -> None:
        self.seed = seed
        self.options = options
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._unhandled)
        self.trace = Trace(self.loop.time)
        self.trace.sink = options.sink
        self._random = chance_of(seed)
        self.character = Character.drawn(self._random, options.nodes)
        self.network = SimulatedNetwork(
            self.loop, Random(self._random.random()), self.trace, drawn_network(self._random)
        )
        self.cluster = SimulatedCluster(
            loop=self.loop,
            network=self.network,
            trace=self.trace,
            random=Random(self._random.random()),
            node_count=options.nodes,
            settings=self.character.settings,
            sync_ms_max=self.character.sync_ms_max,
            configures_voters=self.character.configures_voters,
            on_failure=lambda error, what: self.loop.fail(_unexpected(what, error)),
        )
        self.cluster.on_election = lambda: self.loop.call_soon(self._inspect_quorum, context=self.loop.world)
        self.cluster.on_offloaded = self._inspect_disk
        self.history = History(self.trace.note)
        self.board = Board(self.history, self.character.habits)
        promises = Promises(
            acks_kept=(-1, 1) if options.nodes == 1 else (-1,),
            one_node=options.nodes == 1,
            syncs_each_batch=self.character.syncs_each_batch,
        )
        self.checkers: list[Checker] = all_checkers(promises)
        self.history.observers = [self._observe]
        self.clock = VirtualClock(self.loop, now_ms=EPOCH_MS)
        self.participants: list[Participant] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._client_hosts: list[str] = []
        self._make_participants()
        self.nemesis = Nemesis(
            cluster=self.cluster,
            network=self.network,
            clock=self.clock,
            random=Random(self._random.random()),
            plan=self.character.plan,
            client_hosts=self._client_hosts,
        )

    def _client(self, name: str, timeout_ms: float | None = None, *, cut_off: bool = True) -> Client:
        """`cut_off`: whether faults may part it from brokers."""
        if cut_off:
            self._client_hosts.append(name)
        return Client(
            loop=self.loop,
            clock=self.clock,
            network=self.network.host(name),
            random=Random(self._random.random()),
            name=name,
            bootstrap=[node.address for node in self.cluster.nodes.values()],
            timeout_ms=timeout_ms or self.character.timeout_ms,
        )

    def _host(self, name: str) -> Host:
        self._client_hosts.append(name)
        return Host(
            name=name,
            loop=self.loop,
            clock=self.clock,
            network=self.network,
            trace=self.trace,
            random=Random(self._random.random()),
            servers=",".join(f"{host}:{port}" for host, port in (node.address for node in self.cluster.nodes.values())),
            request_timeout_ms=int(self.character.timeout_ms),
        )

    def _make_participants(self) -> None:
        """Some make their requests themselves; the others are applications that use `barnabas.client`."""
        character, board, add = self.character, self.board, self.participants.append
        self.administrator = Administrator(self._client("admin"), board)
        for number, (acks, idempotent) in enumerate(character.producers):
            add(Producer(self._client(f"producer-{number}"), board, acks=acks, idempotent=idempotent))
        for number, with_sessions in enumerate(character.consumers):
            add(Consumer(self._client(f"consumer-{number}"), board, with_sessions=with_sessions))
        for number, (acks, idempotent) in enumerate(character.applications):
            add(ProducingApplication(self._host(f"writer-{number}"), board, acks=acks, is_idempotent=idempotent))
        for number, committed in enumerate(character.readers):
            host = self._host(f"reader-{number}")
            add(ReadingApplication(host, board, topics=STABLE_TOPICS, reads_committed=committed))
        for number in range(character.members):
            add(
                GroupApplication(
                    self._host(f"member-{number}"),
                    board,
                    habits=character.group,
                    topics=STABLE_TOPICS,
                    is_static=character.static_members and number == 0,
                )
            )
        for number in range(character.keyed_producers):
            add(KeyedApplication(self._host(f"keyed-{number}"), board))
        self._make_copiers()
        self._make_offsets_reader()
        add(self.administrator)

    def _make_offsets_reader(self) -> None:
        """Of groups whose members say what they commit."""
        group, copying_group = self.character.group, self.character.copying_group
        groups = [] if copying_group is None else [copying_group.name]
        if self.character.members and not group.commits_itself:
            groups.append(group.name)
        if groups:
            client = self._client("offsets-reader", cut_off=False)
            self.participants.append(OffsetsReader(client, self.board, groups=groups, topics=STABLE_TOPICS))

    def _make_copiers(self) -> None:
        for number, copier in enumerate(self.character.copiers):
            for name in (f"copier-{number}", f"copier-{number}-twin")[: 1 + copier.has_twin]:
                assert self.character.copying_group is not None
                self.participants.append(
                    CopyingApplication(
                        self._host(name),
                        self.board,
                        transactional_id=f"copy-{number}",
                        timeout_ms=copier.timeout_ms,
                        habits=self.character.copying_group,
                        source=STABLE_TOPICS[0],
                        output=STABLE_TOPICS[1],
                        is_twin=name.endswith("twin"),
                    )
                )

    # The course of a run

    async def run(self) -> None:
        for node in self.cluster.nodes.values():
            self.cluster.start(node)
        self._spawn(self._inspect())
        if self.options.nodes == 1:
            self._spawn(self.nemesis.run())
        await self.clock.within(READING_PATIENCE * self._liveness_ms_max, self._create_topics())
        if self.options.nodes > 1:
            self._spawn(self.nemesis.run())  # some are so bad that without a beginning there would never be any
        working = [self._spawn(participant.run()) for participant in self.participants]
        await self.clock.sleep(self.options.seconds * 1000)
        self.trace.note("faults end")
        self.board.is_calm = True
        self.nemesis.heal()
        await self._until(lambda: self.cluster.is_up, "not every node is up")
        await self._until(self._is_in_sync, "not every replica is in sync")
        before = [participant.progress for participant in self.participants]
        await self._until(
            lambda: all(
                participant.progress >= past + PROGRESS_WANTED
                for participant, past in zip(self.participants, before, strict=True)
            ),
            "not every client gets on",
        )
        for participant in self.participants:
            participant.is_stopping = True
        await self._until(lambda: all(task.done() for task in working), "not every client ends")
        await self._verdict()
        if self.character.restarts_at_end:
            await self._restart_all()
            await self._verdict()

    async def _create_topics(self) -> None:
        if self.character.changes_voters:
            await self.administrator.ensure_voters(len(self.cluster.nodes))
        if self.character.transaction_version == 1:
            await self.administrator.ensure_transaction_version(1)
        settings = {"retention.bytes": "-1"} if self.character.is_transactional else {}
        for name in STABLE_TOPICS:
            await self.administrator.ensure(name, self._random.randint(1, 3), settings)
        for name in self.board.habits.table_names:
            partition_count = self._random.randint(1, TABLE_PARTITIONS_MAX)
            settings = {"cleanup.policy": "compact", "retention.bytes": "-1"}
            await self.administrator.ensure(name, partition_count, settings)

    async def _verdict(self) -> None:
        client = self._client(f"final-{len(self._client_hosts)}", READER_TIMEOUT_MS)
        self.board.habits.seek_rate = 0
        await self._until(self._is_stable, "not every transaction ends")
        readers = FinalReaders(client, self.board)
        await self._until(self._spawn(readers.read_all()).done, "not everything can be read", READING_PATIENCE)
        if self.character.is_transactional:
            reading = self._spawn(self._read_transactional(readers))
            await self._until(reading.done, "not everything committed can be read", READING_PATIENCE)
        newest = max(broker.controller.image.offset for broker in self.cluster.brokers)
        await self._until(
            lambda: all(broker.controller.image.offset >= newest for broker in self.cluster.brokers),
            "not every node hears of the newest metadata",
        )
        await self._until(self._spawn(self._list_topics(client)).done, "not every node lists its topics")
        client.close()
        for checker in self.checkers:
            checker.inspect(self.cluster)
            checker.finish()

    async def _read_transactional(self, readers: FinalReaders) -> None:
        await readers.read_committed(STABLE_TOPICS)
        assert self.character.copying_group is not None
        await readers.read_offsets(self.character.copying_group.name, STABLE_TOPICS[0])

    async def _list_topics(self, client: Client) -> None:
        for node in self.cluster.nodes.values():
            names: dict[str, Uuid] | None = None
            while names is None:
                try:
                    connection = await client.connection(node.address)
                    response = await client.call(connection, MetadataRequest(topics=None), METADATA_VERSION)
                    names = {topic.name: topic.topic_id for topic in response.topics}
                except Unavailable:
                    await self.clock.sleep(100)
            self.history.tell(TopicsListed(names=names))

    async def _restart_all(self) -> None:
        """In good order, so that the next start has nothing to recover."""
        for node in self.cluster.nodes.values():
            self.cluster.stop(node)
        await self._until(
            lambda: all(node.process is None for node in self.cluster.nodes.values()), "not every node stops"
        )
        for node in self.cluster.nodes.values():
            self.cluster.start(node)
        await self._until(lambda: self.cluster.is_up, "not every node comes up again")

    @property
    def _liveness_ms_max(self) -> float:
        return 1000 * self.options.liveness_seconds

    async def _until(self, condition: Callable[[], bool], complaint: str, patience: int = 1) -> None:
        wait_ms_max = patience * self._liveness_ms_max
        end_ms = self.clock.monotonic_ms() + wait_ms_max
        while not condition():
            if self.clock.monotonic_ms() > end_ms:
                raise NotLive(f"{complaint}, {wait_ms_max / 1000:.0f} s after the last fault")
            await self.clock.sleep(20)
        self.trace.note(f"no longer: {complaint}")

    def _is_in_sync(self) -> bool:
        """As every node sees it, with nothing left to move."""
        return all(
            set(state.isr) == set(state.replicas) and not state.adding_replicas and not state.removing_replicas
            for broker in self.cluster.brokers
            for _name, state in broker.controller.image.partitions()
        )

    def _is_stable(self) -> bool:
        """No transaction is open anywhere."""
        return all(
            partition.log.last_stable_offset == partition.log.high_watermark
            for broker in self.cluster.brokers
            for partition in broker.partitions
            if partition.is_leader
        )

    async def _inspect(self) -> None:
        while True:
            await self.clock.sleep(INSPECTION_INTERVAL_MS)
            self._inspect_quorum()
            for checker in self.checkers:
                checker.inspect(self.cluster)

    def _inspect_quorum(self) -> None:
        for checker in self.checkers:
            checker.inspect_quorum(self.cluster)

    def _observe(self, event: Event) -> None:
        try:
            for checker in self.checkers:
                checker.observe(event)
        except Violation as violation:
            self.loop.fail(violation)  # whoever tells of it may be within code that takes it for something else
            raise

    def _inspect_disk(self, node: SimulatedNode) -> None:
        try:
            for checker in self.checkers:
                checker.inspect_disk(node)
        except Violation as violation:
            self.loop.fail(violation)  # in the middle of a step of the broker, which must not take it for an error

    # What must not go unnoticed

    def _spawn(self, main: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.loop.create_task(main, context=self.loop.world)
        task.add_done_callback(self._done, context=self.loop.world)
        self._tasks.append(task)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.loop.fail(task.exception() or AssertionError())

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, ProcessKilled) and not comes_from_disk_fault(error):
            self.loop.fail(error if isinstance(error, Violation) else _unexpected(context["message"], error))

    def watched_logs(self) -> "WatchedLogs":
        return WatchedLogs(self.trace, self.loop)

    def result(self, failure: Failure | None) -> Result:
        return Result(
            seed=self.seed,
            options=self.options,
            virtual_seconds=self.loop.time(),
            steps=self.loop.steps,
            starts=self.cluster.starts,
            faults=self.nemesis.counts,
            events=self.history.counts,
            digest=self.trace.digest,
            failure=failure,
        )


def _unexpected(what: str, error: BaseException | None) -> Exception:
    unexpected = Unexpected(f"{what}: {error!r}")
    unexpected.__cause__ = error
    return unexpected


class WatchedLogs(logging.Handler):
    """What brokers log goes to the trace; a logged exception that no fault explains fails the run."""

    def __init__(self, trace: Trace, loop: VirtualLoop) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self._loop = loop
        self._logger = logging.getLogger("barnabas")

    def __enter__(self) -> None:
        self._before = self._logger.level, self._logger.propagate
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_exception: object) -> None:
        self._logger.removeHandler(self)
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and process.is_dead:
            return  # killed in the middle of a step, which runs to its end but reaches nothing any more
        message = record.getMessage()
        self._trace.note(f"log {process.name if process else 'world'} {record.levelname} {message}")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not comes_from_disk_fault(error):
            self._loop.fail(_unexpected(message, error))
