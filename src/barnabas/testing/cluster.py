"""The brokers of one `Kafka` and everything that a test may do to them, in this process.

Every method takes and gives plain values, so that it can be called from another process too (`testing.child`).
Always holds: each broker keeps its port from its first start on, also while it is down. After `close` nothing is left:
no thread, no socket, no file.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from barnabas.cli.ports import Ports
from barnabas.config.broker import BrokerConfig
from barnabas.config.properties import Given, load
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.server.broker import Broker
from barnabas.testing.broker_thread import BrokerStopped, BrokerThread, End
from barnabas.testing.faults import Action, Delay, Drop, Fail, Fault, Faults, Watch, api_named, error_named

HOST = "127.0.0.1"
WAIT_SECONDS_MAX = 20.0
WAIT_STEP_SECONDS = 0.002
PURPOSE = "testing"  # names the connection to the controller
PREFERRED = 0  # the kind of election in which the first replica leads


class RequestRefused(Exception):
    """The cluster did not do what the test asked of it. The message has Kafka's code and the reason."""


class Cluster:
    def __init__(self, *, brokers: int, port: int, config: Mapping[str, object]) -> None:
        if brokers < 1:
            raise ValueError(f"{brokers} brokers cannot serve")
        self._ports = Ports(HOST)
        self._faults = Faults()
        try:
            found = list(_configs(brokers, port, config, self._ports))
        except BaseException:
            self._ports.close()
            raise
        self._brokers = {each.node_id: BrokerThread(each, self._faults) for each in found}
        self._client_ports = {each.node_id: each.listeners[0].port for each in found}

    def start(self) -> list[tuple[str, int]]:
        """Where clients find the brokers."""
        try:
            for thread in self._brokers.values():
                thread.start()
            for thread in self._brokers.values():
                thread.wait_until_started()
            for thread in self._brokers.values():
                thread.call(lambda broker: _until(lambda: self._all_known_to(broker), "all brokers know each other"))
        except BaseException:
            self.close()
            raise
        return [(HOST, port) for port in self._client_ports.values()]

    def close(self) -> None:
        """All at once, so that nobody waits for anybody."""
        running = [thread for thread in self._brokers.values() if thread.is_running]
        for thread in running:
            thread.ask_to_end(End.STOP_WITH_ALL)
        for thread in running:
            thread.join()
        self._ports.close()

    def _all_known_to(self, broker: Broker) -> bool:
        return sum(not each.fenced for each in broker.controller.image.brokers.values()) == len(self._brokers)

    # Topics

    def create_topic(
        self, name: str, partitions: int, replication_factor: int | None, config: Mapping[str, object]
    ) -> None:
        """Returns once every broker that runs knows of it."""
        from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            configs=[CreatableTopicConfig(name=key, value=_text(value)) for key, value in config.items()],
        )
        answer = self._ask(CreateTopicsRequest(topics=[wanted]))
        _check(answer.topics[0], f"topic {name} cannot be created")
        self._everywhere(lambda broker: name in broker.controller.image.topics_by_name, f"all know of {name}")

    def delete_topics(self, names: Sequence[str]) -> None:
        from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        answer = self._ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]))
        for each in answer.responses:
            _check(each, f"topic {each.name} cannot be deleted")
        gone = frozenset(names)
        self._everywhere(lambda broker: not gone & set(broker.controller.image.topics_by_name), "the topics are gone")

    def topics(self) -> list[str]:
        """All but those that brokers keep for themselves."""
        image = self._serving().broker.controller.image
        return sorted(name for name in image.topics_by_name if not name.startswith("__"))

    # Leaders

    def leader(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).leader  # type: ignore[no-any-return]

    def move_leader(self, topic: str, partition: int, to: int | None) -> int:
        """To another replica, whose turn it then is by preference; a broker without a replica is given one."""
        state = self._partition(topic, partition)
        if to is None:
            to = next((each for each in state.isr if each != state.leader), None)
            if to is None:
                raise RequestRefused(f"{topic}-{partition}: no other replica is in sync")
        elif to not in self._brokers:
            raise ValueError(f"there is no broker {to}")
        kept = [each for each in state.replicas if each != to]
        self._reassign(topic, partition, [to, *(kept if to in state.replicas else kept[:-1])])
        self._everywhere(lambda broker: _is_in_sync(broker, topic, partition, to), f"{to} is in sync")
        if self.leader(topic, partition) != to:
            self._elect(topic, partition)
        self._everywhere(lambda broker: _leader(broker, topic, partition) == to, f"{to} leads {topic}-{partition}")
        return to

    def _reassign(self, topic: str, partition: int, replicas: list[int]) -> None:
        from barnabas.protocol.messages.alter_partition_reassignments import (
            AlterPartitionReassignmentsRequest,
            ReassignablePartition,
            ReassignableTopic,
        )

        wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
        answer = self._ask(
            AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[wanted])])
        )
        _check(answer, f"{topic}-{partition} cannot be moved")
        _check(answer.responses[0].partitions[0], f"{topic}-{partition} cannot be moved")

    def _elect(self, topic: str, partition: int) -> None:
        from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

        wanted = TopicPartitions(topic=topic, partitions=[partition])
        answer = self._ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[wanted]))
        _check(answer, f"{topic}-{partition} can have no other leader")
        result = answer.replica_election_results[0].partition_result[0]
        if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:  # the reassignment may have done it
            _check(result, f"{topic}-{partition} can have no other leader")

    def _partition(self, topic: str, partition: int) -> Any:
        images = [thread.broker.controller.image for thread in self._brokers.values() if thread.is_serving]
        state = max(images, key=lambda image: image.offset).partition(topic, partition)
        if state is None:
            raise RequestRefused(f"there is no partition {topic}-{partition}")
        return state

    # Brokers

    def stop_broker(self, broker: int) -> None:
        self._thread(broker).stop()

    def kill_broker(self, broker: int) -> None:
        self._thread(broker).kill()

    def start_broker(self, broker: int) -> None:
        thread = self._thread(broker)
        thread.start()
        thread.wait_until_started()

    def pause(self, broker: int) -> None:
        self._thread(broker).pause()

    def resume(self, broker: int) -> None:
        self._thread(broker).resume()

    def is_running(self, broker: int) -> bool:
        return self._thread(broker).is_running

    def jump_clock(self, ms: int, broker: int | None) -> None:
        for thread in self._chosen(broker):
            thread.jump_clock(ms)

    # Faults

    def fail_next(
        self, api: str | int, error: str | int, times: int | None, topic: str | None, broker: int | None
    ) -> int:
        return self._add(Fail(error_named(error)), api, times, topic, broker)

    def drop_connection(
        self, api: str | int | None, after: bool, times: int | None, topic: str | None, broker: int | None
    ) -> int:
        return self._add(Drop(after), api, times, topic, broker)

    def delay(
        self, api: str | int | None, ms: float, after: bool, times: int | None, topic: str | None, broker: int | None
    ) -> int:
        if ms < 0:
            raise ValueError(f"nothing can be delayed by {ms} ms")
        return self._add(Delay(ms, after), api, times, topic, broker)

    def watch(self, api: str | int | None, topic: str | None, broker: int | None) -> int:
        return self._add(Watch(), api, None, topic, broker)

    def drop_connections(self, broker: int | None) -> int:
        """Of clients, now; how many there were."""

        async def drop(of: Broker) -> int:
            return of.acceptor.drop_connections("a test asked for it")

        return sum(thread.call(drop) for thread in self._chosen(broker) if thread.is_serving)

    def hits(self, fault: int) -> int:
        return self._faults.hits(fault)

    def remove_fault(self, fault: int) -> None:
        self._faults.remove(fault)

    def heal(self) -> None:
        """No fault is left, no broker is held still or down, and the clocks are right."""
        self._faults.clear()
        for thread in self._brokers.values():
            thread.resume()
        down = [thread for thread in self._brokers.values() if not thread.is_running]
        for thread in down:
            thread.start()
        for thread in down:
            thread.wait_until_started()
        for thread in self._brokers.values():
            thread.jump_clock(-thread.ahead_ms)

    def _add(
        self,
        action: Action,
        api: str | int | None,
        times: int | None,
        topic: str | None,
        broker: int | None,
    ) -> int:
        if times is not None and times < 1:
            raise ValueError(f"nothing can happen {times} times")
        if broker is not None:
            self._thread(broker)
        key = None if api is None else api_named(api)
        return self._faults.add(Fault(action=action, api=key, topic=topic, broker=broker, times_left=times))

    # Whom to ask

    def _thread(self, broker: int) -> BrokerThread:
        if broker not in self._brokers:
            raise ValueError(f"there is no broker {broker}; there are {', '.join(map(str, self._brokers))}")
        return self._brokers[broker]

    def _chosen(self, broker: int | None) -> Iterable[BrokerThread]:
        return self._brokers.values() if broker is None else [self._thread(broker)]

    def _serving(self) -> BrokerThread:
        for thread in self._brokers.values():
            if thread.is_serving:
                return thread
        raise BrokerStopped("no broker runs")

    def _ask(self, request: Message) -> Any:
        """The active controller, through whoever runs."""

        async def ask(broker: Broker) -> Any:
            await _until(lambda: broker.controller.quorum.leader_id >= 0, "there is a controller")
            return await broker.controller_channel.request(request, PURPOSE)

        return self._serving().call(ask)

    def _everywhere(self, condition: Callable[[Broker], bool], what: str) -> None:
        for thread in self._brokers.values():
            if thread.is_serving:
                thread.call(lambda broker: _until(lambda: condition(broker), what))


async def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise RequestRefused(f"waited {WAIT_SECONDS_MAX:.0f} s in vain until {what}")
        await asyncio.sleep(WAIT_STEP_SECONDS)


def _is_in_sync(broker: Broker, topic: str, partition: int, replica: int) -> bool:
    state = broker.controller.image.partition(topic, partition)
    return state is not None and replica in state.isr and not state.adding_replicas and not state.removing_replicas


def _leader(broker: Broker, topic: str, partition: int) -> int | None:
    state = broker.controller.image.partition(topic, partition)
    return None if state is None else state.leader


def _check(answer: Any, what: str) -> None:
    if answer.error_code != ErrorCode.NONE:
        code = ErrorCode(answer.error_code)
        raise RequestRefused(f"{what}: {code.name}{f': {answer.error_message}' if answer.error_message else ''}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _configs(count: int, port: int, config: Mapping[str, object], ports: Ports) -> Iterable[BrokerConfig]:
    """As `barnabas up` has it: small, quick to start, and with replicas where there are brokers for them."""
    ids = range(1, count + 1)
    at_clients = {id: ports.take(port and port + id - 1) for id in ids}
    at_voters = {id: ports.take(0) for id in ids} if count > 1 else {}
    ports.settle()
    replicas = str(min(3, count))
    settings = {
        "log.dirs": "/memory",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "2" if count >= 3 else "1",
        "min.insync.replicas": "2" if count >= 3 else "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.heartbeat.interval.ms": "100",  # at which members learn what was assigned to them
        "group.consumer.min.heartbeat.interval.ms": "100",
    }
    if count > 1:
        settings["controller.listener.names"] = "CONTROLLER"
        settings["inter.broker.listener.name"] = "PLAINTEXT"
        settings["broker.heartbeat.interval.ms"] = "100"  # a broker that stops waits for a heartbeat of each other one
        settings["controller.quorum.voters"] = ",".join(f"{id}@{HOST}:{at}" for id, at in at_voters.items())
    for id in ids:
        listeners = f"PLAINTEXT://{HOST}:{at_clients[id]}"
        if count > 1:
            listeners += f",CONTROLLER://{HOST}:{at_voters[id]}"
        own = {"node.id": str(id), "listeners": listeners, **settings}
        own |= {name: _text(value) for name, value in config.items()}
        loaded = load(Given(name, text, "config") for name, text in own.items())
        for warning in loaded.warnings if id == 1 else ():
            warnings.warn(warning, stacklevel=2)
        yield loaded.config
