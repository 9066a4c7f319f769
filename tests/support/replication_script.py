"""Replicas of one partition speak with each other in a small script language, and everything is written down.

A script has one command a line and below it, indented, what came of it. Partitions and logs are real; the network and
the controller are the script's own words. `python tests/support/replication_script.py [--rewrite] SCRIPT…` prints what
the scripts give now, or writes it into them: review the difference.
    replicas ID… [min=1] [lag=100]                 empty replicas; nobody leads
    metadata leader=ID epoch=N isr=ID,… [to=ID,…]  what the controller has decided, told to these or to all;
                                                   with unclean=yes the leader is not one that has everything
    append ID COUNT [acks=1]                       a batch to whom its producer takes for the leader
    fetch ID                                       the replica asks whom it follows, and does what the answer says
    answer | refuse                                the controller to what a leader has asked for
    wait MS | sweep ID                             time passes; the leader looks for who is slow
    gone ID | back ID                              a broker dies, or comes back
    delete ID OFFSET                               DeleteRecords
    crash ID keep=OFFSET                           it loses what was not on the platter, and registers anew
    logs                                           all replicas, and where each of their epochs ends

Checked after each command: no watermark falls, and all replicas agree below the least of them, unless an unclean leader
was elected.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import golden_script
from peers import FakeCluster
from supervision import NotedSupervisor

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.replication.follower import Action, EpochEnd, next_step
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.replicas.fetch_answers import diverging_epoch
from barnabas.server.replicas.partition import Partition
from barnabas.types import TopicPartition

SIZE_BYTES_MAX = 1 << 20


class Time:
    def __init__(self) -> None:
        self.ms = 0.0

    def monotonic_ms(self) -> float:
        return self.ms

    def now_ms(self) -> int:
        return int(self.ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> SimpleNamespace:
        """Only syncs in the background ask for it, and a disk in memory needs none."""
        return SimpleNamespace(cancel=lambda: None)


class Replica:
    def __init__(self, node_id: int, time: Time, settings: dict[str, str], lag_ms_max: float) -> None:
        self.id = node_id
        self.disk = MemoryDisk()
        self.cluster = FakeCluster(lag_ms_max)
        self.cluster.node_id = node_id
        self.broker_epoch = 1
        self._time = time
        self._config = TopicConfig(settings, BrokerConfig({}))
        self.partition = self._open(0)

    def _open(self, high_watermark: int) -> Partition:
        log = Log.open(self.disk, "t-0", self._config, 0)
        return Partition(
            name=TopicPartition("t", 0),
            topic_id=bytes(16),
            log=log,
            high_watermark=high_watermark,
            cluster=self.cluster,
            runtime=SimpleNamespace(clock=self._time),  # type: ignore[arg-type]
            supervisor=NotedSupervisor(self._time),  # type: ignore[arg-type]
        )

    def crash(self, keep: int) -> None:
        log = self.partition.log
        log.truncate_to(keep, 0)
        log.close()
        self.partition = self._open(min(keep, log.high_watermark))

    def __str__(self) -> str:
        log = self.partition.log
        return f"{self.id}: {log.log_start_offset}..{log.log_end_offset} watermark {log.high_watermark}"

    @property
    def epochs(self) -> str:
        ends = {self.partition.log.end_offset_for_epoch(epoch) for epoch in range(1, 100)}
        return " ".join(f"{epoch}..{end}" for epoch, end in sorted(ends) if epoch > 0)


class ReplicationScript:
    def __init__(self) -> None:
        self._time = Time()
        self._replicas: dict[int, Replica] = {}
        self._ids: tuple[int, ...] = ()
        self._partition_epoch = 0
        self._watermarks: dict[int, int] = {}
        self._was_unclean = False

    def run(self, line: str) -> list[str]:
        words = line.split()
        named = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        lines = getattr(self, f"do_{words[0]}")(*plain, **{key.replace("-", "_"): each for key, each in named.items()})
        for replica in self._replicas.values():
            lines += [f"{replica.id} asks for {asked}" for asked in replica.cluster.asked]
            replica.cluster.asked.clear()
        self._check()
        return lines or ["(nothing)"]

    # Commands

    def do_replicas(self, *ids: str, min: str = "1", lag: str = "100") -> list[str]:
        self._ids = tuple(int(each) for each in ids)
        settings = {"min.insync.replicas": min}
        self._replicas = {each: Replica(each, self._time, settings, float(lag)) for each in self._ids}
        return []

    def do_metadata(self, leader: str, epoch: str, isr: str, to: str = "", unclean: str = "no") -> list[str]:
        self._partition_epoch += 1
        self._was_unclean = self._was_unclean or unclean == "yes"
        in_sync = tuple(int(each) for each in isr.split(","))
        state = PartitionImage(
            self._ids, in_sync, int(leader), int(epoch), self._partition_epoch, tuple(bytes(16) for _ in self._ids)
        )
        told = [int(each) for each in to.split(",")] if to else list(self._ids)
        for each in told:
            self._replicas[each].partition.apply(state)
        return [str(self._replicas[int(leader)])] if int(leader) in told else []

    def do_append(self, node: str, count: str, acks: str = "-1") -> list[str]:
        replica = self._replicas[int(node)]
        batch = encode_batch([Record(number, 1, None, b"x", []) for number in range(int(count))])
        info = replica.partition.append(memoryview(batch), int(acks))
        return [str(replica) if info.error == ErrorCode.NONE else f"{node}: {info.error.name}"]

    def do_fetch(self, node: str) -> list[str]:
        replica = self._replicas[int(node)]
        follower, log = replica.partition, replica.partition.log
        leader = self._replicas[follower.leader_id]
        asks = f"{node} asks {leader.id} for {log.log_end_offset} after epoch {log.leader_epochs.latest_epoch}"
        error = leader.partition.leader_error(follower.leader_epoch)
        diverging, data = None, leader.partition.fetch_failed(error)
        if error == ErrorCode.NONE:
            diverging = diverging_epoch(leader.partition.log, log.leader_epochs.latest_epoch, log.log_end_offset)
        if error == ErrorCode.NONE and diverging is None:
            data = leader.partition.fetch_as_replica(
                fetch_offset=log.log_end_offset, size_bytes_max=SIZE_BYTES_MAX, at_least_one=True
            )
            if data.error_code == ErrorCode.NONE:
                leader.partition.replica_fetched(
                    replica.id, replica.broker_epoch, log.log_end_offset, log.log_start_offset
                )
                data.high_watermark = leader.partition.log.high_watermark
        step = next_step(
            error=ErrorCode(data.error_code),
            diverging=None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
            own_epoch_end=None if diverging is None else EpochEnd(*log.end_offset_for_epoch(diverging.epoch)),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            leader_log_start_offset=data.log_start_offset,
        )
        match step.action:
            case Action.APPEND:
                if data.records:
                    follower.append_from_leader(memoryview(data.records.read()))  # type: ignore[union-attr]
                follower.learn_offsets(data.high_watermark, data.log_start_offset)
            case Action.TRUNCATE:
                log.truncate_to(step.offset, 0)
            case Action.START_AFRESH:
                log.truncate_fully_and_start_at(step.offset, 0)
                self._watermarks[replica.id] = 0
            case Action.WAIT | Action.STOP:
                return [asks, f"{step.action.value}: {ErrorCode(data.error_code).name}"]
        said = "" if diverging is None else f", told of epoch {diverging.epoch} until {diverging.end_offset}"
        return [asks, f"{step.action.value}{said}", str(replica), str(leader)]

    def do_answer(self) -> list[str]:
        lines = []
        for replica in self._replicas.values():
            wanted = replica.partition.in_sync_wanted
            if wanted is not None:
                self._partition_epoch += 1
                replica.partition.in_sync_answered(
                    leader_epoch=replica.partition.leader_epoch, partition_epoch=self._partition_epoch, in_sync=wanted
                )
                lines.append(f"{replica}, in sync {replica.partition.in_sync}")
        return lines

    def do_refuse(self) -> list[str]:
        for replica in self._replicas.values():
            if replica.partition.in_sync_wanted is not None:
                replica.partition.in_sync_refused()
        return []

    def do_wait(self, wait_ms: str) -> list[str]:
        self._time.ms += float(wait_ms)
        return []

    def do_sweep(self, node: str) -> list[str]:
        self._replicas[int(node)].partition.sweep_in_sync()
        return [str(self._replicas[int(node)])]

    def do_gone(self, node: str) -> list[str]:
        for replica in self._replicas.values():
            replica.cluster.gone[int(node)] = None
        return []

    def do_back(self, node: str) -> list[str]:
        for replica in self._replicas.values():
            replica.cluster.gone.pop(int(node), None)
        return []

    def do_delete(self, node: str, offset: str) -> list[str]:
        replica = self._replicas[int(node)]
        error = replica.partition.delete_records(int(offset))
        return [f"{error.name}, low watermark {replica.partition.low_watermark}"]

    def do_crash(self, node: str, keep: str) -> list[str]:
        replica = self._replicas[int(node)]
        replica.crash(int(keep))
        replica.broker_epoch += 1
        for each in self._replicas.values():
            each.cluster.broker_epochs[replica.id] = replica.broker_epoch
        self._watermarks[replica.id] = 0  # it is learnt again
        return [str(replica)]

    def do_logs(self) -> list[str]:
        return [f"{replica}, epochs {replica.epochs}" for replica in self._replicas.values()]

    # What always holds

    def _check(self) -> None:
        if self._was_unclean:
            return
        for replica in self._replicas.values():
            watermark = replica.partition.log.high_watermark
            assert watermark >= self._watermarks.get(replica.id, 0), "a watermark fell"
            self._watermarks[replica.id] = watermark
        logs = [replica.partition.log for replica in self._replicas.values()]
        start = max((log.log_start_offset for log in logs), default=0)
        end = min((log.high_watermark for log in logs), default=0)
        for offset in range(start, end):
            assert len({log.leader_epoch_of(offset) for log in logs}) == 1, f"replicas differ at {offset}"


if __name__ == "__main__":
    golden_script.main(ReplicationScript)
