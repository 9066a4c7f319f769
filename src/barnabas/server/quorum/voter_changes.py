"""Voters added, removed and moved while the cluster runs: carries out what `consensus.membership` allows.

Always holds: one change at a time. A new voter is asked what it can do before it counts, and must have the log already.
A change that was written is answered when it is committed; if that is not known in time, it may still happen.
"""

import asyncio

from barnabas.client.connection import ConnectionLost
from barnabas.consensus import membership
from barnabas.consensus.membership import Refusal
from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.errors import ErrorCode
from barnabas.runtime.interfaces import Runtime
from barnabas.server.peers import Peers
from barnabas.server.quorum.quorum import Quorum
from barnabas.types import Offset

PURPOSE = "new-voter"
KRAFT_VERSION = "kraft.version"
SOFTWARE = "barnabas"
COMMIT_MS_MAX = 5000  # how long a change may take to be committed before its maker is told that it is not known
DONE = Refusal(ErrorCode.NONE)


class VoterChanges:
    def __init__(self, *, quorum: Quorum, runtime: Runtime) -> None:
        self._quorum = quorum
        self._runtime = runtime
        self._clock = runtime.clock
        self._is_busy = False

    async def add(self, key: ReplicaKey, endpoints: tuple[VoterEndpoint, ...], *, ack_when_committed: bool) -> Refusal:
        quorum = self._quorum
        refusal = (
            self._leader_refused()
            or membership.key_refused(key)
            or self._endpoints_refused(endpoints)
            or self._busy_refused()
            or membership.change_refused(quorum.raft, quorum.voter_history)
            or membership.addition_refused(quorum.voter_history, key)
        )
        if refusal is not None:
            return refusal
        self._is_busy = True
        try:
            versions = await self._kraft_versions(key, endpoints)
            if isinstance(versions, Refusal):
                return versions
            now_ms = self._clock.monotonic_ms()
            voters = membership.add(quorum.raft, quorum.voter_history, Voter(key, endpoints, versions), now_ms)
            if isinstance(voters, Refusal):
                return voters
            return await self._write(voters, wait=ack_when_committed)
        finally:
            self._is_busy = False

    async def remove(self, key: ReplicaKey) -> Refusal:
        quorum = self._quorum
        refusal = self._leader_refused() or membership.key_refused(key) or self._busy_refused()
        if refusal is not None:
            return refusal
        voters = membership.remove(quorum.raft, quorum.voter_history, key)
        if isinstance(voters, Refusal):
            return voters
        self._is_busy = True
        try:
            return await self._write(voters, wait=True)
        finally:
            self._is_busy = False

    async def update(self, voter: Voter) -> Refusal:
        """Answered when it is written, as in Kafka: who moved asks again if it was lost."""
        quorum = self._quorum
        least, most = voter.kraft_versions
        refusal = (
            membership.key_refused(voter.key)
            or self._endpoints_refused(voter.endpoints)
            or (Refusal(ErrorCode.INVALID_REQUEST) if not 0 <= least <= most else None)
            or self._busy_refused()
        )
        if refusal is not None:
            return refusal
        voters = membership.update(quorum.raft, quorum.voter_history, voter)
        return voters if isinstance(voters, Refusal) else await self._write(voters, wait=False)

    def upgrade_refused(self) -> Refusal | None:
        voters = self._upgraded()
        return voters if isinstance(voters, Refusal) else None

    async def upgrade(self, kraft_version: int) -> Refusal:
        """From the configuration into the log: from then on the voters can be changed."""
        voters = self._upgraded()
        if isinstance(voters, Refusal):
            return voters
        self._is_busy = True
        try:
            return await self._committed(self._quorum.append_voters(voters, kraft_version))
        finally:
            self._is_busy = False

    # Details

    def _upgraded(self) -> VoterSet | Refusal:
        return self._busy_refused() or membership.upgrade(self._quorum.raft, self._quorum.voter_history)

    def _leader_refused(self) -> Refusal | None:
        return None if self._quorum.is_leader else Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _busy_refused(self) -> Refusal | None:
        words = "Another change of the voters is under way."
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, words) if self._is_busy else None

    def _endpoints_refused(self, endpoints: tuple[VoterEndpoint, ...]) -> Refusal | None:
        listener = self._quorum.own.listener
        if any(endpoint.listener == listener for endpoint in endpoints):
            return None
        return Refusal(ErrorCode.INVALID_REQUEST, f"A voter needs an address on the listener {listener}.")

    async def _kraft_versions(self, key: ReplicaKey, endpoints: tuple[VoterEndpoint, ...]) -> tuple[int, int] | Refusal:
        """Asked at the address that was named, whoever is known by that id now."""
        from barnabas.protocol.messages.api_versions import ApiVersionsRequest

        address = self._quorum.addresses.of_voter(Voter(key, endpoints))
        own_id = self._quorum.raft.replica.id
        peers = Peers(node_id=own_id, runtime=self._runtime, address_of=lambda _id, _purpose: address)
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="1")
        try:
            answer = await peers.get(key.id, PURPOSE).request(request)
        except ConnectionLost as error:
            words = f"The new voter {membership.shown(key)} does not answer: {error}."
            return Refusal(ErrorCode.REQUEST_TIMED_OUT, words)
        finally:
            peers.close()
        for feature in answer.supported_features:
            if feature.name == KRAFT_VERSION:
                return feature.min_version, feature.max_version
        return 0, 0

    async def _write(self, voters: VoterSet, *, wait: bool) -> Refusal:
        end_offset = self._quorum.append_voters(voters)
        return await self._committed(end_offset) if wait else DONE

    async def _committed(self, end_offset: Offset) -> Refusal:
        quorum = self._quorum
        epoch = quorum.epoch
        deadline_ms = self._clock.monotonic_ms() + COMMIT_MS_MAX
        while quorum.high_watermark < end_offset:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return Refusal(ErrorCode.REQUEST_TIMED_OUT, "The change of the voters is not committed yet.")
            if quorum.epoch != epoch or not quorum.is_leader:
                return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await asyncio.wait([quorum.news()], timeout=left_ms / 1000)
        return DONE
