"""What must hold of transactions, one class each, by what clients asked and were told.

    NoAbortedReads            nobody who reads with read_committed gets what was aborted (Jepsen's G1a)
    NoIntermediateReads       nor what nobody has asked to commit yet (G1b)
    NoCircularReads           no two committed transactions have each read what the other wrote (G1c)
    TransactionsAreWhole      of a transaction that somebody saw, all that was ever sent is there in the end
    CommittedSurvives         all that was sent in a transaction that was committed is there in the end (lost write)
    CopiedOnce                a record that was read in a transaction is copied once, and no other twice (duplicate)
    OffsetsFollow             what a group has committed is what was copied (inconsistent offsets)
    StableReadersAgree        all who read with read_committed get the same, in one order, up to what is stable

Always holds: what is in doubt is held against nobody; but it is all of a transaction or nothing.
Does not know: nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.simulation.checker import Checker, Promises
from barnabas.simulation.history import (
    FINAL_READER,
    CommittedRead,
    Delivered,
    Event,
    FetchAsked,
    PartitionId,
    ProduceAsked,
    StableFetched,
    Stamp,
    TransactionCommitAsked,
    TransactionEnded,
    TransactionOffset,
    TransactionOutcome,
    TransactionRead,
    source_of,
)
from barnabas.types import Offset

COMMITTED, ABORTED, _UNKNOWN = TransactionOutcome


def transaction_of(value: bytes) -> str:
    """The transaction that wrote this; nothing where it was written without one."""
    writer = value[: value.index(b" ")]
    return writer.decode() if b"~" in writer else ""


class NoAbortedReads(Checker):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._aborted: set[str] = set()
        self._read_by: dict[str, str] = {}

    def observe(self, event: Event) -> None:
        match event:
            case TransactionEnded() if event.outcome is ABORTED:
                self._aborted.add(event.transaction)
                self._compare(event.transaction)
            case StableFetched() | Delivered(is_committed=True):
                for _offset, value in event.records:
                    transaction = transaction_of(value)
                    if transaction and transaction not in self._read_by:
                        self._read_by[transaction] = event.reader
                        self._compare(transaction)
            case _:
                pass

    def _compare(self, transaction: str) -> None:
        if transaction in self._aborted and transaction in self._read_by:
            self.fail(f"{transaction} was aborted, and {self._read_by[transaction]} has read it")


class NoIntermediateReads(Checker):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._asked: set[str] = set()

    def observe(self, event: Event) -> None:
        match event:
            case TransactionCommitAsked():
                self._asked.add(event.transaction)
            case StableFetched() | Delivered(is_committed=True):
                for offset, value in event.records:
                    transaction = transaction_of(value)
                    if transaction and transaction not in self._asked:
                        self.fail(
                            f"{event.reader} reads {Stamp.of(value)} at {offset} of {event.partition_id}, "
                            f"which nobody has asked to commit"
                        )
            case _:
                pass


class NoCircularReads(Checker):
    """Edges are only those from what was written to who read it: writes of several may well be interleaved."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._reads: dict[str, dict[str, None]] = {}  # by transaction those whose writes it has read
        self._gone: set[str] = set()

    def observe(self, event: Event) -> None:
        match event:
            case TransactionRead():
                read = self._reads.setdefault(event.transaction, {})
                read.update(dict.fromkeys(filter(None, map(transaction_of, event.values))))
            case TransactionEnded() if event.outcome is ABORTED:
                self._gone.add(event.transaction)
            case _:
                pass

    def finish(self) -> None:
        left = {name: read for name, read in self._reads.items() if name not in self._gone}
        while True:
            free = [name for name, read in left.items() if not any(each in left for each in read)]
            if not free:
                break
            for name in free:
                del left[name]
        if left:
            self.fail(f"in circles: {', '.join(sorted(left)[:5])} have read what the others wrote")


class FinalContent(Checker):
    """What is there in the end for who reads with read_committed."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self.content: dict[PartitionId, dict[Offset, bytes]] = {}
        self.outcomes: dict[str, TransactionOutcome] = {}

    def observe(self, event: Event) -> None:
        match event:
            case StableFetched() if event.reader == FINAL_READER:
                self.content.setdefault(event.partition_id, {}).update(event.records)
            case TransactionEnded():
                self.outcomes[event.transaction] = event.outcome
            case _:
                pass

    def values(self) -> Iterator[bytes]:
        for records in self.content.values():
            yield from records.values()


class TransactionsAreWhole(FinalContent):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._written: dict[str, list[bytes]] = {}
        self._seen: set[str] = set()

    def observe(self, event: Event) -> None:
        super().observe(event)
        match event:
            case ProduceAsked() if event.batch.transaction and not event.batch.is_keyed:
                self._written.setdefault(event.batch.transaction, []).extend(event.batch.values)
            case StableFetched() | Delivered(is_committed=True):
                self._seen.update(transaction_of(value) for _offset, value in event.records)
            case _:
                pass

    def is_judged(self, transaction: str) -> bool:
        return transaction in self._seen

    def finish(self) -> None:
        there = set(self.values())
        for transaction, values in self._written.items():
            missing = [value for value in values if value not in there]
            if missing and self.is_judged(transaction):
                first = Stamp.of(missing[0])
                self.fail(f"{len(missing)} of the {len(values)} records of {transaction} are missing, first {first}")


class CommittedSurvives(TransactionsAreWhole):
    def is_judged(self, transaction: str) -> bool:
        return self.outcomes.get(transaction) is COMMITTED


class CopiedOnce(FinalContent):
    def finish(self) -> None:
        copies: dict[str, Stamp] = {}
        last: dict[tuple[PartitionId, str], Offset] = {}
        for partition_id, records in self.content.items():
            for offset in sorted(records):
                source = source_of(records[offset])
                if not source:
                    continue
                stamp = Stamp.of(records[offset])
                if copies.setdefault(source, stamp) != stamp:
                    self.fail(f"{source} was copied as {copies[source]} and as {stamp}")
                copied_partition, copied_offset = source.split("@")
                before = last.get((partition_id, copied_partition), -1)
                if int(copied_offset) < before:
                    self.fail(f"{source} was copied after {copied_partition}@{before}")
                last[partition_id, copied_partition] = int(copied_offset)


class OffsetsFollow(FinalContent):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._held: dict[tuple[str, PartitionId, Offset], list[str]] = {}  # by which transactions
        self._committed: dict[tuple[str, PartitionId], Offset] = {}  # in the end
        self._told: set[tuple[str, PartitionId, Offset]] = set()

    def observe(self, event: Event) -> None:
        super().observe(event)
        match event:
            case TransactionOffset():
                key = event.group, event.partition_id, event.offset
                self._held.setdefault(key, []).append(event.transaction)
            case CommittedRead():
                self._told.add((event.group, event.partition_id, event.offset))
                if event.member == FINAL_READER:
                    self._committed[event.group, event.partition_id] = event.offset
            case _:
                pass

    def finish(self) -> None:
        for key in sorted(self._told & set(self._held)):
            if all(self.outcomes.get(transaction) is ABORTED for transaction in self._held[key]):
                self.fail(f"{key[0]} was at {key[2]} of {key[1]}, by {self._held[key]}, which were aborted")
        copied: dict[str, set[Offset]] = {}
        for value in self.values():
            if source := source_of(value):
                partition, offset = source.split("@")
                copied.setdefault(partition, set()).add(int(offset))
        for (group, partition_id), committed in self._committed.items():
            there = copied.get(str(partition_id), set())
            wanted = {offset for offset in self.content.get(partition_id, {}) if offset < committed}
            if there != wanted:
                lacking, beyond = sorted(wanted - there)[:3], sorted(there - wanted)[:3]
                self.fail(f"{group} is at {committed} of {partition_id}: not copied {lacking}, copied beyond {beyond}")


class StableReadersAgree(Checker):
    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._content: dict[PartitionId, dict[Offset, bytes | None]] = {}  # None: there is nothing to read
        self._highest: dict[PartitionId, dict[int, Offset]] = {}  # stable offsets by leader epoch
        self._when_asked: dict[tuple[str, PartitionId], dict[int, Offset]] = {}

    def observe(self, event: Event) -> None:
        match event:
            case FetchAsked():
                self._when_asked[event.reader, event.partition_id] = dict(self._highest.get(event.partition_id, {}))
            case StableFetched():
                self._compare(event)
                self._look_at_bounds(event)
            case Delivered(is_committed=True):
                self._look_at_records(event)
            case _:
                pass

    def _compare(self, event: StableFetched) -> None:
        content = self._content.setdefault(event.partition_id, {})
        offsets = [offset for offset, _value in event.records]
        if offsets != sorted(set(offsets)):
            self.fail(f"{event.reader} gets {event.partition_id} in the order {offsets}")
        found = dict(event.records)
        for offset in range(event.offset, event.next_offset):
            value = found.get(offset)
            known = content.setdefault(offset, value)
            if known != value:
                one, other = (Stamp.of(each) if each else "nothing" for each in (known, value))
                self.fail(f"{event.partition_id} offset {offset} was {one}, for {event.reader} it is {other}")

    def _look_at_records(self, event: Delivered) -> None:
        content = self._content.setdefault(event.partition_id, {})
        for offset, value in event.records:
            if content.setdefault(offset, value) != value:
                self.fail(f"{event.reader} is given {Stamp.of(value)} at {offset}, where others have read otherwise")

    def _look_at_bounds(self, event: StableFetched) -> None:
        stable = event.last_stable_offset
        if event.next_offset > max(stable, event.offset) or stable > event.high_watermark:
            bounds = f"stable up to {stable}, watermark {event.high_watermark}"
            self.fail(f"{event.reader} got {event.partition_id} up to {event.next_offset}, {bounds}")
        before = self._when_asked.get((event.reader, event.partition_id), {}).get(event.leader_epoch, 0)
        if stable < before:
            self.fail(f"{event.partition_id} was stable up to {before}, now up to {stable}")
        highest = self._highest.setdefault(event.partition_id, {})
        highest[event.leader_epoch] = max(highest.get(event.leader_epoch, 0), stable)


def transaction_checkers(promises: Promises) -> list[Checker]:
    return [
        NoAbortedReads(promises),
        NoIntermediateReads(promises),
        NoCircularReads(promises),
        TransactionsAreWhole(promises),
        CommittedSurvives(promises),
        CopiedOnce(promises),
        OffsetsFollow(promises),
        StableReadersAgree(promises),
    ]
