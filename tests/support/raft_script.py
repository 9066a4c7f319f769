"""Speaks with replicas of pure Raft in a small script language, and writes down all that they decide.

A script has one command a line and below it, indented, what came of it. `python tests/support/raft_script.py
[--rewrite] SCRIPT…` prints what the scripts give now, or writes it into them: review the difference.

    voters N… [observers N…]      who there is; first of all
    tick N                        time goes on to the next deadline of N, if it is not over yet, and N hears of it
    wait MS                       time goes on, and nobody is told
    deliver                       all messages under way, and the answers to them, until there are none
    drop                          all messages under way are lost
    fetch N                       N fetches once, and appends, cuts or copies what its leader gives it
    append N VALUE                as the leader; synced at once
    add|remove LEADER N           a voter
    resign N | lost N LEADER      N goes; N's connection to the leader broke
    snapshot N | clean N          N writes one; N cuts off what it holds
    crash N | start N             what was synced survives: everything but the roles
    show                          what each believes

Checked after each command: one leader in an epoch, and what was committed stays.
"""

from __future__ import annotations

from random import Random

import golden_script
from raft_cluster import Entry, ListLog, key_of, voter_set

from barnabas.consensus import membership
from barnabas.consensus.membership import Refusal
from barnabas.consensus.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    EpochResponse,
    FetchVerdict,
    LogEnd,
    Send,
    SnapshotPosition,
    VoteRequest,
    VoteResponse,
)
from barnabas.consensus.raft import Election, Output, Raft, Role, Timeouts
from barnabas.consensus.voters import Voter, VoterSet
from barnabas.errors import ErrorCode
from barnabas.types import NO_LEADER

TIMEOUTS = Timeouts(election_ms=1000, fetch_ms=2000, backoff_ms_max=1000)


class Replica:
    def __init__(self, script: RaftScript, node_id: int, voters: VoterSet) -> None:
        self.id = node_id
        self.script = script
        self.log = ListLog(voters)
        self.durable = Election()
        self.is_up = True
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.raft = Raft(
            replica=key_of(self.id),
            voters=self.log.history().voters,
            election=self.durable,
            log=self.log,
            timeouts=TIMEOUTS,
            random=self.script.random,
            now_ms=self.script.now_ms,
        )
        self.told = (self.raft.role, self.raft.epoch, self.raft.leader_id)

    def perform(self, output: Output) -> None:
        say = self.script.say
        if output.persist is not None:
            self.durable = output.persist
        if output.truncate_to is not None:
            say(f"{self.id} cuts its log at {output.truncate_to}")
            del self.log.entries[output.truncate_to :]
        self.tell_role()
        if output.lead:
            self.append("leader")
        if output.high_watermark is not None:
            say(f"{self.id} has committed up to {output.high_watermark}")
            self.script.committed(self.log.entries[: output.high_watermark])
            if self.log.history().offset < output.high_watermark:
                self.perform(self.raft.voters_committed(self.script.now_ms))
        for send in output.send:
            say(f"{self.id} -> {send.to} {show_message(send.message)}")
            self.script.under_way.append((self.id, send))
        self.heed_voters()

    def tell_role(self) -> None:
        told = (self.raft.role, self.raft.epoch, self.raft.leader_id)
        if told != self.told:
            self.told = told
            self.script.say(f"{self.id} is {self.role()}")

    def role(self) -> str:
        raft = self.raft
        of = f" of {raft.leader_id}" if raft.role is Role.FOLLOWER else ""
        return f"{raft.role.value}{of} in epoch {raft.epoch}"

    def heed_voters(self) -> None:
        voters = self.log.history().voters
        if voters != self.raft.voters:
            self.script.say(f"{self.id} lets {' '.join(map(str, voters.ids))} vote")
            self.perform(self.raft.voters_changed(voters, self.script.now_ms))

    def append(self, value: str) -> None:
        self.log.entries.append((self.raft.epoch, value))
        self.log.synced = len(self.log.entries)
        self.script.say(f"{self.id} appends {value} at {self.log.synced - 1}")
        self.heed_voters()
        self.perform(self.raft.synced(self.log.synced, self.script.now_ms))


class RaftScript:
    def __init__(self) -> None:
        self.random = Random(7)
        self.now_ms = 0.0
        self.replicas: dict[int, Replica] = {}
        self.under_way: list[tuple[int, Send]] = []
        self.history: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        self.lines = []
        command, *words = line.split()
        getattr(self, f"do_{command}")(*words)
        for replica in self.replicas.values():
            if replica.is_up and replica.raft.is_leader:
                leader = self.leaders.setdefault(replica.raft.epoch, replica.id)
                assert leader == replica.id, f"two leaders in epoch {replica.raft.epoch}"
        return self.lines or ["(nothing)"]

    def say(self, text: str) -> None:
        self.lines.append(text)

    def committed(self, entries: list[Entry]) -> None:
        shared = min(len(entries), len(self.history))
        assert entries[:shared] == self.history[:shared], "committed entries differ"
        if len(entries) > shared:
            self.history = list(entries)

    # Commands

    def do_voters(self, *words: str) -> None:
        voters, _, observers = " ".join(words).partition("observers")
        initial = voter_set(*map(int, voters.split()))
        for word in (*voters.split(), *observers.split()):
            self.replicas[int(word)] = Replica(self, int(word), initial)

    def do_tick(self, number: str) -> None:
        replica = self.replicas[int(number)]
        self.now_ms = max(self.now_ms, replica.raft.next_deadline_ms())
        replica.perform(replica.raft.tick(self.now_ms))

    def do_wait(self, wait_ms: str) -> None:
        self.now_ms += float(wait_ms)

    def do_deliver(self) -> None:
        while self.under_way:
            source, send = self.under_way.pop(0)
            target = self.replicas[send.to]
            if not target.is_up or not self.replicas[source].is_up:
                self.say(f"{source} -> {send.to} is lost")
                continue
            self._receive(self.replicas[source], target, send)

    def _receive(self, source: Replica, target: Replica, send: Send) -> None:
        message = send.message
        response: VoteResponse | EpochResponse
        if isinstance(message, VoteRequest):
            response, output = target.raft.receive_vote(message, self.now_ms)
            self.say(f"{target.id} -> {source.id} {show_answer(response)}")
            target.perform(output)
            source.perform(source.raft.receive_vote_response(target.id, response, message.pre_vote, self.now_ms))
            return
        if isinstance(message, BeginEpochRequest):
            response, output = target.raft.receive_begin_epoch(message, self.now_ms)
        else:
            response, output = target.raft.receive_end_epoch(message, self.now_ms)
        self.say(f"{target.id} -> {source.id} {show_answer(response)}")
        target.perform(output)

    def do_drop(self) -> None:
        for source, send in self.under_way:
            self.say(f"{source} -> {send.to} is lost")
        self.under_way.clear()

    def do_fetch(self, number: str, target_number: str = "") -> None:
        replica = self.replicas[int(number)]
        raft = replica.raft
        position = raft.fetch_position()
        target_id = int(target_number) if target_number else raft.leader_id
        if position is None or target_id == NO_LEADER:
            self.say(f"{number} has nobody to fetch from")
            return
        target = self.replicas[target_id]
        if not target.is_up:
            self.say(f"{number} does not reach {target.id}")
            return
        if raft.fetching is not None:
            self._fetch_snapshot(replica, target, raft.fetching)
            return
        verdict, output = target.raft.receive_fetch(position, self.now_ms)
        self.say(f"{number} -> {target.id} fetch from {show_end(LogEnd(position.last_fetched_epoch, position.offset))}")
        plain = verdict.error == ErrorCode.NONE and verdict.diverging is None and verdict.snapshot is None
        entries = target.log.read(position.offset, 100) if plain else []
        self.say(f"{target.id} -> {number} {show_verdict(verdict, entries)}")
        target.perform(output)
        replica.perform(raft.receive_fetch_response(target.id, verdict, self.now_ms))
        if plain and raft.role is Role.FOLLOWER and raft.epoch == verdict.epoch:
            replica.log.entries.extend(entries)
            replica.log.synced = len(replica.log.entries)
            replica.heed_voters()
            replica.perform(raft.appended(verdict.high_watermark))

    def _fetch_snapshot(self, replica: Replica, target: Replica, snapshot: LogEnd) -> None:
        asked = SnapshotPosition(key_of(replica.id), replica.raft.epoch, snapshot, 0)
        verdict, output = target.raft.receive_fetch_snapshot(asked, self.now_ms)
        if verdict.error == ErrorCode.NONE and snapshot not in target.log.snapshots:
            verdict = verdict._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        self.say(f"{replica.id} -> {target.id} fetch snapshot {show_end(snapshot)}")
        self.say(f"{target.id} -> {replica.id} {verdict.error.name if verdict.error else 'all of it'}")
        target.perform(output)
        replica.perform(replica.raft.receive_fetch_snapshot_response(target.id, verdict, self.now_ms))
        if replica.raft.fetching == snapshot:
            replica.log.install(snapshot, target.log.entries[: snapshot.end_offset])
            replica.heed_voters()
            replica.perform(replica.raft.snapshot_installed())

    def do_append(self, number: str, value: str) -> None:
        replica = self.replicas[int(number)]
        assert replica.raft.is_leader
        replica.append(value)

    def do_add(self, leader: str, number: str) -> None:
        replica = self.replicas[int(leader)]
        voter = Voter(key_of(int(number)))
        self._change(replica, membership.add(replica.raft, replica.log.history(), voter, self.now_ms))

    def do_remove(self, leader: str, number: str) -> None:
        replica = self.replicas[int(leader)]
        self._change(replica, membership.remove(replica.raft, replica.log.history(), key_of(int(number))))

    def _change(self, replica: Replica, changed: VoterSet | Refusal) -> None:
        if isinstance(changed, Refusal):
            self.say(changed.error.name)
        else:
            replica.append("voters " + " ".join(map(str, changed.ids)))

    def do_resign(self, number: str) -> None:
        replica = self.replicas[int(number)]
        replica.perform(replica.raft.resign(self.now_ms))

    def do_lost(self, number: str, leader: str) -> None:
        replica = self.replicas[int(number)]
        before_ms = replica.raft.next_deadline_ms()
        replica.perform(replica.raft.connection_lost(int(leader), self.now_ms))
        if replica.raft.next_deadline_ms() < before_ms:
            self.say(f"{number} will not wait for its timeout")

    def do_snapshot(self, number: str) -> None:
        log = self.replicas[int(number)].log
        log.take_snapshot(self.replicas[int(number)].raft.high_watermark)
        assert log.snapshot is not None
        self.say(f"{number} has a snapshot {show_end(log.snapshot)}")

    def do_clean(self, number: str) -> None:
        log = self.replicas[int(number)].log
        log.clean()
        self.say(f"{number} begins at {show_end(log.start)}")

    def do_crash(self, number: str) -> None:
        self.replicas[int(number)].is_up = False

    def do_start(self, number: str) -> None:
        replica = self.replicas[int(number)]
        replica.start()
        self.say(f"{number} is {replica.role()}")

    def do_show(self) -> None:
        for replica in self.replicas.values():
            raft = replica.raft
            state = replica.role() if replica.is_up else "down"
            voters = " ".join(map(str, raft.voters.ids))
            log = f"log {replica.log.start.end_offset} to {show_end(replica.log.end)}, committed {raft.high_watermark}"
            self.say(f"{replica.id} {state}; {log}; {voters} vote")


def show_end(end: LogEnd) -> str:
    return f"{end.end_offset} (epoch {end.last_epoch})"


def show_message(message: VoteRequest | BeginEpochRequest | EndEpochRequest) -> str:
    if isinstance(message, VoteRequest):
        kind = "pre-vote" if message.pre_vote else "vote"
        return f"{kind} in epoch {message.epoch}, log ends at {show_end(message.log_end)}"
    if isinstance(message, BeginEpochRequest):
        return f"begin epoch {message.epoch}"
    return f"end epoch {message.epoch}, successors {' '.join(map(str, message.successors))}"


def show_answer(response: VoteResponse | EpochResponse) -> str:
    leader = "" if response.leader_id == NO_LEADER else f", {response.leader_id} leads"
    if response.error != ErrorCode.NONE:
        return f"{response.error.name} in epoch {response.epoch}{leader}"
    if isinstance(response, VoteResponse):
        return f"{'granted' if response.granted else 'refused'} in epoch {response.epoch}{leader}"
    return f"heard in epoch {response.epoch}"


def show_verdict(verdict: FetchVerdict, entries: list[Entry]) -> str:
    if verdict.error != ErrorCode.NONE:
        leader = "" if verdict.leader_id == NO_LEADER else f", {verdict.leader_id} leads"
        return f"{verdict.error.name} in epoch {verdict.epoch}{leader}"
    if verdict.diverging is not None:
        return f"diverging, epoch {verdict.diverging.last_epoch} ends at {verdict.diverging.end_offset}"
    if verdict.snapshot is not None:
        return f"take snapshot {show_end(verdict.snapshot)}"
    values = " ".join(value.replace(" ", "-") for _epoch, value in entries)
    return f"{values or 'nothing new'}, committed {verdict.high_watermark}"


if __name__ == "__main__":
    golden_script.main(RaftScript)
