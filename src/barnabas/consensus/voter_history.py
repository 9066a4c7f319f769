"""Who votes from which offset of the metadata log on, as its control records say.

Always holds: the latest set counts from the moment in which it stands in the log, committed or not; one that is cut off
again never counted (KIP-853). While `kraft.version` is 0 the voters are those of the configuration.
Does not know: what is committed, who leads.
"""

from typing import NamedTuple

from barnabas.consensus.quorum_records import KRaftVersion, QuorumRecord
from barnabas.consensus.snapshot_file import SnapshotHead
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.types import Offset

BEFORE_THE_LOG: Offset = -1  # where a set stands that came with the directory, or with a snapshot


class Entry(NamedTuple):
    offset: Offset
    kraft_version: int
    voters: VoterSet | None  # None: those of the configuration


class VoterHistory:
    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._entries = [Entry(BEFORE_THE_LOG, 0, None)]  # ascending; never empty

    @property
    def voters(self) -> VoterSet:
        latest = self._entries[-1].voters
        return self._static if latest is None else latest

    @property
    def kraft_version(self) -> int:
        return self._entries[-1].kraft_version

    @property
    def offset(self) -> Offset:
        """Where the latest set stands."""
        return self._entries[-1].offset

    def appended(self, offset: Offset, record: QuorumRecord | None) -> None:
        latest = self._entries[-1]
        if isinstance(record, KRaftVersion):
            self._entries.append(Entry(offset, record.level, latest.voters))
        elif isinstance(record, VoterSet):
            self._entries.append(Entry(offset, latest.kraft_version, record))

    def may_vote(self, replica: ReplicaKey, committed: Offset) -> bool:
        """Whether it is in a set after which no other is known to be committed."""
        for entry in reversed(self._entries):
            voters = self._static if entry.voters is None else entry.voters
            if voters.is_voter(replica):
                return True
            if entry.offset < committed:
                return False
        return False

    def truncate_to(self, end_offset: Offset) -> None:
        while self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def restart(self, offset: Offset, head: SnapshotHead) -> None:
        """All that was before stands in a snapshot that ends here."""
        self._entries = [Entry(offset - 1, head.kraft_version, head.voters)]

    def head(self, end_offset: Offset, last_contained_ms: int) -> SnapshotHead:
        """For a snapshot of all below this offset."""
        entry = self._at(end_offset)
        return SnapshotHead(last_contained_ms, entry.kraft_version, entry.voters if entry.kraft_version else None)

    def forget_before(self, offset: Offset) -> None:
        """Nobody will ask for less again."""
        kept = self._at(offset)
        self._entries = [kept, *(entry for entry in self._entries if entry.offset >= offset and entry is not kept)]

    def _at(self, end_offset: Offset) -> Entry:
        below = [entry for entry in self._entries if entry.offset < end_offset]
        return below[-1] if below else self._entries[0]
