"""Producer state against a plain model of Kafka's rules, and against itself across restarts."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import ErrorCode
from barnabas.log.leader_epochs import LeaderEpochs
from barnabas.log.producer_state import ProducerStates
from barnabas.protocol.control_records import TransactionMarker
from barnabas.protocol.record_batch import BatchHeader

WRAP = 2**31
FAR_AHEAD_MS = 10**15


@dataclass
class Producer:
    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # first and last sequence, base offset
    open_since: int | None = None


class Model:
    """The rules said once more, plainly: everything ever appended, nothing packed, nothing cached."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}

    def verdict(self, header: BatchHeader) -> tuple[ErrorCode, int | None]:
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return ErrorCode.NONE, None
        first, last = header.base_sequence, (header.base_sequence + header.record_count - 1) % WRAP
        if header.producer_epoch == producer.epoch:
            for old_first, old_last, offset in producer.batches[-5:]:
                if (old_first, old_last) == (first, last):
                    return ErrorCode.NONE, offset
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        known = header.producer_epoch == producer.epoch and producer.batches
        expected = (producer.batches[-1][1] + 1) % WRAP if known else 0
        if first != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
        if producer.open_since is not None and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE, None
        return ErrorCode.NONE, None

    def append(self, header: BatchHeader) -> None:
        producer = self.producers.setdefault(header.producer_id, Producer(header.producer_epoch))
        if producer.epoch != header.producer_epoch:
            producer.epoch, producer.batches = header.producer_epoch, []
        if header.is_control:
            producer.open_since = None
            return
        last = (header.base_sequence + header.record_count - 1) % WRAP
        producer.batches.append((header.base_sequence, last, header.base_offset))
        if header.is_transactional and producer.open_since is None:
            producer.open_since = header.base_offset


@st.composite
def histories(draw: st.DrawFn) -> list[BatchHeader]:
    """What a few producers, some of them confused, might send. Sequences mostly follow each other."""
    headers = []
    next_sequence: dict[tuple[int, int], int] = {}
    for number in range(draw(st.integers(1, 40))):
        producer_id = draw(st.integers(1, 3))
        epoch = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
        control = draw(st.sampled_from([False, False, False, True]))
        count = 1 if control else draw(st.sampled_from([1, 2, 3]))
        start = draw(st.sampled_from([0, WRAP - 4]))
        sequence = next_sequence.get((producer_id, epoch), 0 if epoch else start)
        if draw(st.sampled_from([False, False, False, True])):
            sequence = (sequence - draw(st.integers(0, 12))) % WRAP
        next_sequence[producer_id, epoch] = (sequence + count) % WRAP
        transactional = control or draw(st.booleans())
        headers.append(
            BatchHeader(
                base_offset=0,
                batch_length=100,
                leader_epoch=0,
                magic=2,
                crc=0,
                attributes=(0x10 if transactional else 0) | (0x20 if control else 0),
                last_offset_delta=count - 1,
                base_timestamp_ms=number,
                max_timestamp_ms=number,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=-1 if control else sequence,
                record_count=count,
            )
        )
    return headers


def accepted(headers: list[BatchHeader]) -> list[BatchHeader]:
    """Those that a log takes, at their offsets, with the model as judge; every verdict is compared on the way."""
    states, model = ProducerStates(), Model()
    log = []
    end_offset = 0
    for header in headers:
        if header.is_control:
            if states.check_marker(header, TransactionMarker(True, 0)) is not ErrorCode.NONE:
                continue
        else:
            error, duplicate_offset = model.verdict(header)
            verdict = states.check(header)
            assert verdict.error is error
            assert (verdict.duplicate_of.base_offset if verdict.duplicate_of else None) == duplicate_offset
            if error is not ErrorCode.NONE or duplicate_offset is not None:
                continue
        placed = header._replace(base_offset=end_offset)
        end_offset = placed.next_offset
        states.append(placed, marker=TransactionMarker(True, 0) if header.is_control else None)
        model.append(placed)
        log.append(placed)
        opened = [producer.open_since for producer in model.producers.values() if producer.open_since is not None]
        assert states.first_undecided_offset == min(opened, default=None)
        assert list(states.ongoing_transactions) == sorted(opened)
    return log


def replayed(states: ProducerStates, headers: list[BatchHeader]) -> ProducerStates:
    for header in headers:
        states.append(header, marker=TransactionMarker(True, 0) if header.is_control else None)
    return states


@given(histories())
def test_verdicts_are_the_models(headers: list[BatchHeader]) -> None:
    accepted(headers)


@given(histories(), st.data())
def test_a_snapshot_and_the_rest_give_what_the_whole_log_gives(headers: list[BatchHeader], data: st.DataObject) -> None:
    log = accepted(headers)
    at = data.draw(st.integers(0, len(log)))
    whole = replayed(ProducerStates(), log)
    restarted = ProducerStates()
    restarted.load(replayed(ProducerStates(), log[:at]).encode(), now_ms=0)
    replayed(restarted, log[at:])
    assert restarted.encode() == whole.encode()
    assert restarted.ongoing_transactions == whole.ongoing_transactions


@given(histories(), st.data())
def test_the_watermark_never_uncovers_an_open_transaction(headers: list[BatchHeader], data: st.DataObject) -> None:
    log = accepted(headers)
    states = ProducerStates()
    watermark = 0
    for header in log:
        states.append(header, marker=TransactionMarker(True, 0) if header.is_control else None)
        watermark = data.draw(st.integers(watermark, header.next_offset))
        before = states.first_unstable_offset
        states.advance(watermark)
        after = states.first_unstable_offset
        assert after is None or (before is not None and after >= before)
        assert states.first_undecided_offset is None or (after is not None and after <= states.first_undecided_offset)
    states.advance(FAR_AHEAD_MS)
    assert states.first_unstable_offset == states.first_undecided_offset


starts = st.tuples(st.integers(0, 20), st.integers(0, 50))


@given(st.lists(starts, max_size=20), st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=4))
def test_leader_epochs_ascend_whatever_is_assigned_and_cut(
    assigned: list[tuple[int, int]], cuts: list[tuple[bool, int]]
) -> None:
    history = LeaderEpochs()
    for epoch, start_offset in assigned:
        history.assign(epoch, start_offset)
        assert history.latest_epoch == epoch
    for from_end, offset in cuts:
        before = history.entries
        changed = history.truncate_from_end(offset) if from_end else history.truncate_from_start(offset)
        assert changed == (history.entries != before)
    entries = history.entries
    for below, above in pairwise(entries):
        assert below.epoch < above.epoch
        assert below.start_offset < above.start_offset
        assert history.end_offset_for(below.epoch, 1_000) == (below.epoch, above.start_offset)
    for epoch, start_offset in entries:
        assert history.epoch_for(start_offset) == epoch
    assert LeaderEpochs.decode(history.encode()).entries == entries
