"""`Kafka`: real brokers for a test, and the switches that break them.

Works for any client of any language: what a switch does is done by the brokers, on the wire.
Always holds: leaving the `with` block ends everything that it started, clients included.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

WAIT_SECONDS_MAX = 10.0
_numbers = itertools.count(1)


class Fault:
    """A switch that was set, or requests that are watched. `with` takes it back at the end of the block."""

    def __init__(self, cluster: Any, number: int) -> None:
        self._cluster = cluster
        self._number = number

    @property
    def hits(self) -> int:
        """How often it has happened."""
        hits = self._cluster.hits(self._number)
        assert isinstance(hits, int)
        return hits

    def wait(self, hits: int = 1, timeout_s: float = WAIT_SECONDS_MAX) -> None:
        """Until it has happened so often; TimeoutError if that takes too long."""
        deadline = time.monotonic() + timeout_s
        while self.hits < hits:
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_s} s it has happened {self.hits} times, not {hits}")
            time.sleep(0.002)

    def cancel(self) -> None:
        """It happens no more."""
        self._cluster.remove_fault(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()


class Kafka:
    """Brokers in memory, in this process or in one of their own, on free ports.

    `config` holds settings of brokers by Kafka's names. `port` is that of the first broker, 0 for free ones.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        subprocess: bool = False,
        port: int = 0,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._brokers = brokers
        self._subprocess = subprocess
        self._port = port
        self._config = dict(config or {})
        self._cluster: Any = None  # while it runs
        self._addresses: list[tuple[str, int]] = []
        self._clients: list[Any] = []  # to be closed before the brokers are

    # Life

    def start(self) -> Self:
        if self._cluster is not None:
            raise RuntimeError("it runs already")
        if self._subprocess:
            from barnabas.testing.child_cluster import ChildCluster as Brokers
        else:
            from barnabas.testing.cluster import Cluster as Brokers  # type: ignore[assignment]
        cluster = Brokers(brokers=self._brokers, port=self._port, config=self._config)
        self._addresses = cluster.start()
        self._cluster = cluster
        return self

    def close(self) -> None:
        """Once or often: afterwards nothing of it is left."""
        try:
            self.close_clients()
        finally:
            self._close_brokers()

    def _close_brokers(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """For clients: `host:port` of each broker, with commas between."""
        self._running()
        return ",".join(f"{host}:{port}" for host, port in self._addresses)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker."""
        self._running()
        return list(self._addresses)

    @property
    def broker_ids(self) -> list[int]:
        """From 1 on, in the order of `addresses`."""
        return list(range(1, self._brokers + 1))

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """The name again. When it returns, every broker knows of the topic."""
        self._running().create_topic(name, partitions, replication_factor, dict(config or {}))
        return name

    def topic(self, stem: str = "topic", partitions: int = 1, **options: Any) -> str:
        """As `create_topic`, under a name that nobody else has: for tests that share brokers."""
        return self.create_topic(unique(stem), partitions, **options)

    def topics(self) -> list[str]:
        """Their names, sorted, without those that brokers keep for themselves."""
        names = self._running().topics()
        assert isinstance(names, list)
        return names

    def delete_topic(self, *names: str) -> None:
        self._running().delete_topics(list(names))

    # Clients, closed with the brokers

    def producer(self, **settings: Any) -> Any:
        """A producer of `barnabas.client.synchronous`."""
        return self._client("Producer", settings)

    def consumer(self, *topics: str, **settings: Any) -> Any:
        """A consumer of `barnabas.client.synchronous` that reads these topics, from their beginning unless the settings
        say otherwise, as the only member of a group of its own unless they name one."""
        found = self._client("Consumer", {"auto_offset_reset": "earliest", "group_id": unique("group"), **settings})
        if topics:
            found.subscribe(list(topics))
        return found

    def admin(self, **settings: Any) -> Any:
        """An admin client of `barnabas.client.synchronous`."""
        return self._client("Admin", settings)

    def close_clients(self) -> None:
        """Those that were made by `producer`, `consumer` and `admin`."""
        while self._clients:
            self._clients.pop().close()

    def _client(self, kind: str, settings: dict[str, Any]) -> Any:
        from barnabas.client import synchronous

        found = getattr(synchronous, kind)(bootstrap_servers=self.bootstrap_servers, **settings)
        self._clients.append(found)
        return found

    # Faults, seen by clients; brokers among themselves are spared

    def fail_next(
        self, api: str | int, error: str | int, *, times: int = 1, topic: str | None = None, broker: int | None = None
    ) -> Fault:
        """The next requests of this API are answered with this error, and not carried out."""
        return self._fault(self._running().fail_next(api, error, times, topic, broker))

    def delay(
        self,
        api: str | int | None,
        ms: float,
        *,
        after: bool = False,
        times: int | None = None,
        topic: str | None = None,
        broker: int | None = None,
    ) -> Fault:
        """Requests of this API (None: of all) wait before they are carried out; or, with `after`, their answers do."""
        return self._fault(self._running().delay(api, ms, after, times, topic, broker))

    def drop_connection(
        self,
        api: str | int | None,
        *,
        after: bool = False,
        times: int = 1,
        topic: str | None = None,
        broker: int | None = None,
    ) -> Fault:
        """The next request of this API (None: of any) ends its connection instead of being carried out; or, with
        `after`, once it was carried out and before it is answered."""
        return self._fault(self._running().drop_connection(api, after, times, topic, broker))

    def watch(self, api: str | int | None, *, topic: str | None = None, broker: int | None = None) -> Fault:
        """Nothing goes wrong: `hits` counts the requests, and `wait` waits for one."""
        return self._fault(self._running().watch(api, topic, broker))

    def drop_connections(self, broker: int | None = None) -> int:
        """All connections of clients are closed now; how many they were."""
        dropped = self._running().drop_connections(broker)
        assert isinstance(dropped, int)
        return dropped

    def heal(self) -> None:
        """Takes back every fault, starts and resumes every broker, and sets the clocks right."""
        self._running().heal()

    def _fault(self, number: int) -> Fault:
        return Fault(self._cluster, number)

    # Brokers and their clocks

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads the partition; -1 where nobody does."""
        leader = self._running().leader(topic, partition)
        assert isinstance(leader, int)
        return leader

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Lets this broker lead the partition, or any other that is in sync; which one it is."""
        leader = self._running().move_leader(topic, partition, to)
        assert isinstance(leader, int)
        return leader

    def jump_clock(self, ms: int, *, broker: int | None = None) -> None:
        """Wall clocks of brokers jump, forwards or, below 0, backwards, and what is too old by then is deleted.

        Waits and timeouts go on as before, as when somebody sets the clock of a machine.
        """
        self._running().jump_clock(ms, broker)

    def pause(self, broker: int = 1) -> None:
        """It keeps its connections and does nothing, as after SIGSTOP."""
        self._running().pause(broker)

    def resume(self, broker: int = 1) -> None:
        self._running().resume(broker)

    def stop_broker(self, broker: int = 1) -> None:
        """In good order. What it has in its memory is kept for the next start."""
        self._running().stop_broker(broker)

    def kill_broker(self, broker: int = 1) -> None:
        """Without a word, as by SIGKILL. What it had written is kept for the next start."""
        self._running().kill_broker(broker)

    def start_broker(self, broker: int = 1) -> None:
        """Again, on the same port, with what it had. Where a majority is down, `heal` starts all of them together."""
        self._running().start_broker(broker)

    def restart_broker(self, broker: int = 1) -> None:
        """In good order."""
        self.stop_broker(broker)
        self.start_broker(broker)

    def _running(self) -> Any:
        if self._cluster is None:
            raise RuntimeError("no broker runs: use `with Kafka() as kafka:`, or call start()")
        return self._cluster


def unique(stem: str) -> str:
    """A name that no other test has, in this process or beside it."""
    return f"{stem}-{os.getpid()}-{next(_numbers)}"
