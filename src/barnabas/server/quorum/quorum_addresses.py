"""Where the members of the metadata quorum are.

A voter's address stands in the log, or in the configuration; a leader tells its own with what it sends. Who knows
nobody yet asks the addresses of `controller.quorum.bootstrap.servers`, under negative numbers, as Kafka has them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.consensus.voters import Voter, VoterEndpoint, VoterSet
from barnabas.runtime.interfaces import Address
from barnabas.types import NO_LEADER, BrokerId

FIRST_BOOTSTRAP_ID: BrokerId = -2  # then -3 and so on; -1 is nobody


class OwnEndpoints(NamedTuple):
    """Where this node listens for controllers; the first is the one that the quorum speaks on."""

    endpoints: tuple[VoterEndpoint, ...] = ()

    @property
    def listener(self) -> str:
        return self.endpoints[0].listener if self.endpoints else ""


NOWHERE = OwnEndpoints()


class QuorumAddresses:
    def __init__(self, bootstrap: tuple[Address, ...], listener: str) -> None:
        self._bootstrap = bootstrap
        self._listener = listener
        self._told: dict[BrokerId, Address] = {}  # by the nodes themselves, or by others about the leader

    @property
    def bootstrap_ids(self) -> tuple[BrokerId, ...]:
        return tuple(FIRST_BOOTSTRAP_ID - number for number in range(len(self._bootstrap)))

    def learn(self, told: Mapping[BrokerId, Address]) -> None:
        for node_id, address in told.items():
            if node_id > NO_LEADER and address[0]:
                self._told[node_id] = address

    def voters_changed(self, voters: VoterSet) -> None:
        """What the log says of a voter is newer than what was told before."""
        for voter in voters.voters:
            self._told.pop(voter.key.id, None)

    def of(self, node_id: BrokerId, voters: VoterSet) -> Address | None:
        if node_id <= FIRST_BOOTSTRAP_ID:
            return self._bootstrap[FIRST_BOOTSTRAP_ID - node_id]
        told = self._told.get(node_id)
        voter = voters.get(node_id)
        return told if told is not None or voter is None else self.of_voter(voter)

    def of_voter(self, voter: Voter) -> Address | None:
        """On the listener that the quorum speaks on, or else on its first one."""
        for endpoint in voter.endpoints:
            if endpoint.listener == self._listener:
                return endpoint.host, endpoint.port
        return (voter.endpoints[0].host, voter.endpoints[0].port) if voter.endpoints else None
