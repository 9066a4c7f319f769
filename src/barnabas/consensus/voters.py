"""Who votes. A set of voters is a value; it changes by one voter at a time, so that any two majorities share one.

A replica is known by its id and the id of its directory: a node that comes back with an empty disk is another one, and
must not vote with the promises of the lost one (KIP-853). Where the voters are configured rather than written in the
log, directory ids are unknown (`ZERO_UUID`) and only the ids count.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.types import ZERO_UUID, BrokerId, Uuid


class ReplicaKey(NamedTuple):
    id: BrokerId
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: "ReplicaKey") -> bool:
        """An unknown directory id, on either side, matches any."""
        return self.id == other.id and (ZERO_UUID in (self.directory_id, other.directory_id) or self == other)


class VoterEndpoint(NamedTuple):
    listener: str
    host: str
    port: int


class Voter(NamedTuple):
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)  # the lowest and the highest that it speaks


class VoterSet:
    """Immutable; in the order of ids."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: Mapping[BrokerId, Voter] = {voter.key.id: voter for voter in sorted(voters)}

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter_id) for voter_id in self._voters)})"

    @property
    def ids(self) -> tuple[BrokerId, ...]:
        return tuple(self._voters)

    @property
    def voters(self) -> tuple[Voter, ...]:
        return tuple(self._voters.values())

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def get(self, voter_id: BrokerId) -> Voter | None:
        return self._voters.get(voter_id)

    def is_voter(self, replica: ReplicaKey) -> bool:
        voter = self._voters.get(replica.id)
        return voter is not None and voter.key.matches(replica)

    def others(self, voter_id: BrokerId) -> tuple[Voter, ...]:
        return tuple(voter for voter in self._voters.values() if voter.key.id != voter_id)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """With this one added, or in the place of the one with its id."""
        return VoterSet([*(other for other in self._voters.values() if other.key.id != voter.key.id), voter])

    def without(self, voter_id: BrokerId) -> "VoterSet":
        return VoterSet(self.others(voter_id))

    def overlaps_majority_of(self, other: "VoterSet") -> bool:
        """Whether a majority of each must share a voter: true for sets that differ by at most one."""
        mine, theirs = set(self._voters), set(other._voters)
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1 and len(mine ^ theirs) <= 1
