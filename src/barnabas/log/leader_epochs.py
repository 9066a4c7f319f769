"""Which leader epoch wrote which part of a partition: the start offset of each epoch.

Owns the mapping that replicas truncate by (KIP-101, KIP-320) and the lines of `leader-epoch-checkpoint`, one epoch and
start offset each. Always holds: epochs and start offsets both ascend, strictly. Does not know: who leads, files.
Methods that change the mapping say whether they did: the caller then writes the file.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from barnabas.log.checkpoint import CheckpointError, decode_lines, encode_lines
from barnabas.types import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset

LEADER_EPOCH_FILE_NAME = "leader-epoch-checkpoint"


class EpochStart(NamedTuple):
    epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """Where an epoch ends; both are -1 where nothing is known of it."""

    epoch: LeaderEpoch
    end_offset: Offset


UNKNOWN_EPOCH_END = EpochEnd(NO_LEADER_EPOCH, NO_OFFSET)


class LeaderEpochs:
    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self._epochs: list[LeaderEpoch] = []  # ascending
        self._start_offsets: list[Offset] = []  # ascending, one per epoch
        for epoch, start_offset in entries or ():
            self.assign(epoch, start_offset)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[EpochStart]:
        return [EpochStart(*pair) for pair in zip(self._epochs, self._start_offsets, strict=True)]

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch that has written here; -1 where none has."""
        return self._epochs[-1] if self._epochs else NO_LEADER_EPOCH

    @property
    def latest_start_offset(self) -> Offset:
        return self._start_offsets[-1] if self._start_offsets else NO_OFFSET

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Records that this epoch writes from this offset on. What contradicts it was truncated, and goes."""
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        if self._epochs and self._epochs[-1] == epoch and self._start_offsets[-1] <= start_offset:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        return True

    def led_by(self, epoch: LeaderEpoch, log_end_offset: Offset) -> "LeaderEpochs":
        """As it is once this epoch writes; itself where it has."""
        if epoch <= self.latest_epoch:
            return self
        result = LeaderEpochs(self.entries)
        result.assign(epoch, log_end_offset)
        return result

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEnd:
        """The answer to OffsetForLeaderEpoch: the newest epoch not above the one asked for, and where it ends.

        The latest epoch ends where the log ends. An epoch older than all that is left ends where that begins, so that
        a follower replicates from there.
        """
        if epoch == NO_LEADER_EPOCH or not self._epochs:
            return UNKNOWN_EPOCH_END
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNKNOWN_EPOCH_END
        found = self._epochs[higher - 1] if higher else epoch
        return EpochEnd(found, self._start_offsets[higher])

    def epoch_for(self, offset: Offset) -> LeaderEpoch:
        """The epoch that wrote this offset; -1 where it is older than all that is known."""
        higher = bisect_right(self._start_offsets, offset)
        return self._epochs[higher - 1] if higher else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drops epochs that begin at or after the new end of the log."""
        keep = bisect_left(self._start_offsets, end_offset)
        changed = keep < len(self._epochs)
        del self._epochs[keep:]
        del self._start_offsets[keep:]
        return changed

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Drops epochs that end at or before the new start of the log; the one that it cuts begins there."""
        cut = bisect_right(self._start_offsets, start_offset) - 1
        if cut < 0 or (cut == 0 and self._start_offsets[0] == start_offset):
            return False
        del self._epochs[:cut]
        del self._start_offsets[:cut]
        self._start_offsets[0] = start_offset
        return True

    def clear(self) -> bool:
        changed = bool(self._epochs)
        self._epochs.clear()
        self._start_offsets.clear()
        return changed

    def encode(self) -> bytes:
        return encode_lines([f"{epoch} {start}" for epoch, start in self.entries])

    @classmethod
    def decode(cls, data: bytes, path: str = LEADER_EPOCH_FILE_NAME) -> "LeaderEpochs":
        result = cls()
        for number, line in decode_lines(data, path):
            fields = line.split()
            if len(fields) != 2 or not all(field.isdecimal() for field in fields):
                raise CheckpointError(path, number, f"{line!r} is not an epoch and its start offset")
            result.assign(int(fields[0]), int(fields[1]))
        return result
