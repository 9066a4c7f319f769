"""Control records of the metadata log, which speak of the quorum itself: who leads, who votes, and a snapshot's ends.

Always holds: what is written here, Kafka 4.3 reads, and the other way round. Kinds that are unknown are left out.
Does not know: batches, offsets, what the cluster's own records mean.
"""

from typing import Any, NamedTuple

from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.protocol.control_records import ControlRecordKind, decode_control_key, encode_control_key
from barnabas.protocol.message import Message
from barnabas.types import BrokerId

Pair = tuple[bytes, bytes]  # key and value of a record
VERSION = 0  # of each kind; Kafka 4.3 writes no other


class KRaftVersion(NamedTuple):
    """Level 0: the voters stand in every node's configuration. Level 1: they stand in the log, and may change."""

    level: int


class SnapshotHeader(NamedTuple):
    last_contained_ms: int  # when the last batch that it stands for was appended


class SnapshotFooter(NamedTuple):
    pass


QuorumRecord = KRaftVersion | VoterSet | SnapshotHeader | SnapshotFooter


def leader_change(leader_id: BrokerId, voters: VoterSet, granting: tuple[BrokerId, ...]) -> Pair:
    from barnabas.protocol.messages import leader_change_message as messages

    message = messages.LeaderChangeMessage(
        version=VERSION,
        leader_id=leader_id,
        voters=[messages.Voter(voter_id=voter_id) for voter_id in voters.ids],
        granting_voters=[messages.Voter(voter_id=voter_id) for voter_id in granting],
    )
    return _pair(ControlRecordKind.LEADER_CHANGE, message)


def encode(record: QuorumRecord) -> Pair:
    if isinstance(record, VoterSet):
        return _pair(ControlRecordKind.KRAFT_VOTERS, _voters_record(record))
    if isinstance(record, KRaftVersion):
        from barnabas.protocol.messages.kraft_version_record import KRaftVersionRecord

        return _pair(ControlRecordKind.KRAFT_VERSION, KRaftVersionRecord(version=VERSION, kraft_version=record.level))
    if isinstance(record, SnapshotHeader):
        from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord

        header = SnapshotHeaderRecord(version=VERSION, last_contained_log_timestamp=record.last_contained_ms)
        return _pair(ControlRecordKind.SNAPSHOT_HEADER, header)
    from barnabas.protocol.messages.snapshot_footer_record import SnapshotFooterRecord

    return _pair(ControlRecordKind.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=VERSION))


def decode(key: bytes | None, value: bytes | None) -> QuorumRecord | None:
    """None for a leader change, which says nothing that the batch's epoch does not, and for unknown kinds."""
    kind = decode_control_key(key)
    data = memoryview(value or b"")
    if kind is ControlRecordKind.KRAFT_VOTERS:
        from barnabas.protocol.messages.voters_record import VotersRecord

        return _voter_set(VotersRecord.decode(data, 0, VERSION)[0])
    if kind is ControlRecordKind.KRAFT_VERSION:
        from barnabas.protocol.messages.kraft_version_record import KRaftVersionRecord

        return KRaftVersion(KRaftVersionRecord.decode(data, 0, VERSION)[0].kraft_version)
    if kind is ControlRecordKind.SNAPSHOT_HEADER:
        from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord

        return SnapshotHeader(SnapshotHeaderRecord.decode(data, 0, VERSION)[0].last_contained_log_timestamp)
    return SnapshotFooter() if kind is ControlRecordKind.SNAPSHOT_FOOTER else None


def _pair(kind: ControlRecordKind, message: Message) -> Pair:
    value = bytearray()
    message.encode(value, VERSION)
    return encode_control_key(kind), bytes(value)


def _voters_record(voters: VoterSet) -> Message:
    from barnabas.protocol.messages import voters_record as messages

    return messages.VotersRecord(
        version=VERSION,
        voters=[
            messages.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    messages.Endpoint(name=each.listener, host=each.host, port=each.port) for each in voter.endpoints
                ],
                kraft_version_feature=messages.KRaftVersionFeature(
                    min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                ),
            )
            for voter in voters.voters
        ],
    )


def _voter_set(record: Any) -> VoterSet:
    return VoterSet(
        Voter(
            key=ReplicaKey(each.voter_id, each.voter_directory_id),
            endpoints=tuple(VoterEndpoint(end.name, end.host, end.port) for end in each.endpoints),
            kraft_versions=(
                each.kraft_version_feature.min_supported_version,
                each.kraft_version_feature.max_supported_version,
            ),
        )
        for each in record.voters
    )
