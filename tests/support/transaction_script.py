"""Speaks with one shard of transactions in a small script language, on a clock of its own, and writes everything down.

A script has one command a line and below it, indented, what came of it: answers, records as they are appended, markers
as they are sent. `python tests/support/transaction_script.py [--rewrite] SCRIPT…` prints what the scripts give now, or
writes it into them: review the difference.

Names stand for producers; each remembers the id and epoch that it was given. The transactional id is `x` unless `id=`
says otherwise. `epoch=+1` and `pid=+1` are relative to the producer's own.
    settings NAME=VALUE…                 of TransactionSettings; version=0..2 is that of the cluster
    init PRODUCER [again] [timeout=]     with `again` it names its id and epoch (KIP-360)
         [two-phase] [keep]              with `two-phase` somebody else ends its transactions (KIP-939)
    add PRODUCER TOPIC-PARTITION… [version=0|2]
    verify PRODUCER TOPIC-PARTITION…
    commit|abort PRODUCER [version=0|2]
    written                              the markers that are on their way are written
    epochs N                             the id has had so many epochs already, which nobody remembers
    wait MS | fail ERROR | restart
Checked after each command: everyone is answered once, and a replay of the log gives what the shard has.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from itertools import count
from typing import Any

import golden_script

from barnabas.coordination.outcome import Moment, Outcome, Pending, Producer
from barnabas.coordination.records import CoordinatorRecord, encode
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.server.coordinators.coordinator_errors import told_as
from barnabas.transactions.markers import Markers
from barnabas.transactions.settings import TransactionSettings
from barnabas.transactions.shard import Surroundings, TransactionShard
from barnabas.transactions.state import NAMES
from barnabas.transactions.transaction import decode, from_record
from barnabas.types import TopicPartition

WALL_MS = 1_000_000_000_000


class Asked(Pending):
    __slots__ = ("answered", "show", "what")

    def __init__(self, what: str, show: Callable[[Any], str]) -> None:
        self.what = what
        self.show = show
        self.answered = False


class TransactionScript:
    def __init__(self) -> None:
        producer_ids = count(1000)
        self.surroundings = Surroundings(
            settings=TransactionSettings(), take_producer_id=lambda: next(producer_ids), transaction_version=2
        )
        self.now = Moment(WALL_MS, 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.producers: dict[str, Producer] = {}
        self.markers: list[Markers] = []  # on their way
        self.failure = ErrorCode.NONE  # of the next append
        self.lines: list[str] = []
        self.shard = TransactionShard(self.surroundings)
        self.shard.loaded(self.now)

    # Running

    def run(self, line: str) -> list[str]:
        """What came of one command."""
        self.lines = []
        command, *words = shlex.split(line)
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, "do_" + command)(plain, named)
        self._check_replay()
        return self.lines or ["(nothing)"]

    def say(self, text: str) -> None:
        self.lines.append(text)

    def decide(
        self, what: str, show: Callable[[Any], str], decide: Callable[[TransactionShard, Asked], Outcome]
    ) -> None:
        asked = Asked(what, show)
        self.perform(decide(self.shard, asked))
        assert asked.answered

    def perform(self, outcome: Outcome) -> None:
        if outcome.records and self.failure:
            failed, self.failure = self.failure, ErrorCode.NONE
            self.say(f"log: {failed.name}")
            for asked, _response in outcome.answers:
                self._answer(asked, told_as(failed))
            return
        for record in outcome.records:
            self.say("log: " + show_record(record))
            self.log.append(encode(record))
            self.shard.apply(record, len(self.log) - 1)
        if outcome.then is not None:
            self.perform(outcome.then(self.shard, self.now))
        for asked, response in outcome.answers:
            self._answer(asked, response)
        for markers in outcome.effects:
            self.say(show_markers(markers))
            self.markers.append(markers)

    def _answer(self, asked: Pending, response: Any) -> None:
        assert isinstance(asked, Asked)
        assert not asked.answered, f"{asked.what} is answered twice"
        asked.answered = True
        shown = response.name if isinstance(response, ErrorCode) else asked.show(response)
        self.say(f"{asked.what}: {shown}")

    def _check_replay(self) -> None:
        other = TransactionShard(Surroundings(settings=TransactionSettings(), take_producer_id=lambda: None))
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            other.apply(record, offset)
        mine = {name: each._replace(last_producer_epoch=-1) for name, each in self.shard.transactions.items()}
        theirs = {name: each._replace(last_producer_epoch=-1) for name, each in other.transactions.items()}
        assert mine == theirs

    # Commands

    def do_settings(self, _plain: list[str], named: dict[str, str]) -> None:
        if "version" in named:
            self.surroundings.transaction_version = int(named.pop("version"))
        settings = {name: int(value) for name, value in named.items()}
        self.surroundings.settings = self.surroundings.settings._replace(**settings)
        self.shard.loaded(self.now)

    def do_init(self, plain: list[str], named: dict[str, str]) -> None:
        name, *flags = plain
        producer = self._producer(name, named) if "again" in flags else Producer(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=named.get("id", "x"),
            transaction_timeout_ms=int(named.get("timeout", 60_000)),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            enable2_pc="two-phase" in flags,
            keep_prepared_txn="keep" in flags,
        )

        def show(response: Any) -> str:
            self.producers[name] = Producer(response.producer_id, response.producer_epoch)
            return f"producer {response.producer_id} epoch {response.producer_epoch}"

        self.decide(f"{name} init", show, lambda shard, asked: shard.init_producer_id(request, asked, self.now))

    def do_add(self, plain: list[str], named: dict[str, str]) -> None:
        name, *places = plain
        producer, version = self._producer(name, named), int(named.get("version", 2))
        partitions = [place(word) for word in places]
        self.decide(
            f"{name} add",
            str,
            lambda shard, asked: shard.add_partitions(
                named.get("id", "x"), producer, partitions, version, asked, self.now
            ),
        )

    def do_verify(self, plain: list[str], named: dict[str, str]) -> None:
        name, *places = plain
        partitions = [place(word) for word in places]
        verified = self.shard.verify_partitions(named.get("id", "x"), self._producer(name, named), partitions)
        self.say(f"{name} verify: " + " ".join(f"{each}={error.name}" for each, error in verified.items()))

    def do_commit(self, plain: list[str], named: dict[str, str]) -> None:
        self._end(plain, named, committed=True)

    def do_abort(self, plain: list[str], named: dict[str, str]) -> None:
        self._end(plain, named, committed=False)

    def _end(self, plain: list[str], named: dict[str, str], *, committed: bool) -> None:
        (name,) = plain
        producer, version = self._producer(name, named), int(named.get("version", 2))
        request = EndTxnRequest(
            transactional_id=named.get("id", "x"),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=committed,
        )

        def show(response: Any) -> str:
            if version < 2:
                return "ok"
            self.producers[name] = Producer(response.producer_id, response.producer_epoch)
            return f"producer {response.producer_id} epoch {response.producer_epoch}"

        what = f"{name} {'commit' if committed else 'abort'}"
        self.decide(what, show, lambda shard, asked: shard.end(request, version, asked, self.now))

    def do_written(self, _plain: list[str], _named: dict[str, str]) -> None:
        markers, self.markers = self.markers, []
        for each in markers:
            self.perform(self.shard.complete(each, self.now))

    def do_epochs(self, plain: list[str], named: dict[str, str]) -> None:
        known = self.shard.transactions[named.get("id", "x")]
        moved = known._replace(producer_epoch=int(plain[0]))
        self.perform(Outcome([moved.record(self.surroundings.transaction_version)]))
        self.producers = dict.fromkeys(self.producers, Producer(moved.producer_id, moved.producer_epoch))

    def do_wait(self, plain: list[str], _named: dict[str, str]) -> None:
        end_ms = self.now.monotonic_ms + int(plain[0])
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self._move_to(max(due_ms, self.now.monotonic_ms))
            outcome = self.shard.tick(self.now)
            if outcome is not None and outcome.records:
                self.say(f"after {self.now.monotonic_ms} ms:")
                self.perform(outcome)
        self._move_to(end_ms)

    def _move_to(self, monotonic_ms: int) -> None:
        self.now = Moment(WALL_MS + monotonic_ms, monotonic_ms)

    def do_fail(self, plain: list[str], _named: dict[str, str]) -> None:
        self.failure = ErrorCode[plain[0]]

    def do_restart(self, _plain: list[str], _named: dict[str, str]) -> None:
        """Another broker: it knows what the log says, and sends the markers once more."""
        self.markers = []
        self.shard.unload()
        self.shard = TransactionShard(self.surroundings)
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            self.shard.apply(record, offset)
        for outcome in self.shard.loaded(self.now):
            self.perform(outcome)

    def _producer(self, name: str, named: dict[str, str]) -> Producer:
        known = self.producers.get(name, Producer(1, 0))
        return Producer(_relative(named.get("pid"), known.id), _relative(named.get("epoch"), known.epoch))


def _relative(text: str | None, own: int) -> int:
    if text is None:
        return own
    return own + int(text) if text[0] in "+-" else int(text)


def place(word: str) -> TopicPartition:
    topic, _, partition = word.rpartition("-")
    return TopicPartition(topic, int(partition))


def show_record(record: CoordinatorRecord) -> str:
    transactional_id, transaction = from_record(record)
    if transaction is None:
        return f"{transactional_id} forgotten"
    words = [
        f"{transactional_id} {NAMES[transaction.state]}: producer {transaction.producer_id}"
        f" epoch {transaction.producer_epoch}"
    ]
    if transaction.next_producer_id >= 0:
        words.append(f"then producer {transaction.next_producer_id}")
    words += [str(each) for each in transaction.partitions]
    if transaction.client_version:
        words.append(f"(version {transaction.client_version})")
    return " ".join(words)


def show_markers(markers: Markers) -> str:
    word = "commit" if markers.committed else "abort"
    places = " ".join(str(each) for each in markers.partitions) or "(no partition)"
    return f"markers: {word} producer {markers.producer_id} epoch {markers.producer_epoch} {places}"


if __name__ == "__main__":
    golden_script.main(TransactionScript)
