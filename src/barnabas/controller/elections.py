"""Elections that somebody asks for, or that are due: ElectLeaders, leaders back where they belong, unclean ones.

Always holds: a preferred election never makes a leader of one that is not eligible; an unclean one is held by itself
only for topics that allow it. Whoever asks for an unclean one by ElectLeaders gets it, as in Kafka.
"""

from typing import TYPE_CHECKING

from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.electorate import Electorate, Place
from barnabas.controller.partition_change import Election
from barnabas.controller.partitions import too_many
from barnabas.errors import ErrorCode
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.message import Message
from barnabas.types import NO_LEADER

if TYPE_CHECKING:
    from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

ELECTIONS_AT_ONCE_MAX = 1000  # of those that nobody asked for; the rest comes in the next decision. Kafka's number.
ELECTION_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(electorate: Electorate, request: "ElectLeadersRequest") -> Decision["ElectLeadersResponse"]:
    """Of the partitions named; where none are, of all, and only those are answered whose leader was not right."""
    from barnabas.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

    election = ELECTION_TYPES.get(request.election_type)
    if election is None:
        words = f"There is no election of type {request.election_type}."
        return Decision([], refused(request, Refusal(ErrorCode.INVALID_REQUEST, words)))
    topics = electorate.image.topics_by_name
    asked = (
        [(name, list(topic.partitions)) for name, topic in topics.items()]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    records: list[Message] = []
    results: list[ReplicaElectionResult] = []
    for name, numbers in asked:
        answers: list[PartitionResult] = []
        for number in numbers:
            outcome = _elect(electorate, name, number, election, records)
            if request.topic_partitions is not None or outcome.error != ErrorCode.ELECTION_NOT_NEEDED:
                answers.append(
                    PartitionResult(partition_id=number, error_code=outcome.error, error_message=outcome.message)
                )
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    if len(records) > RECORDS_MAX:
        return Decision([], refused(request, too_many(len(records))))
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def refused(request: "ElectLeadersRequest", refusal: Refusal) -> "ElectLeadersResponse":
    """The same for all: version 0 has no other place for an error than at the partitions."""
    from barnabas.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=number, error_code=refusal.error, error_message=refusal.message)
                for number in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=refusal.error, replica_election_results=results)


def _elect(electorate: Electorate, name: str, number: int, election: Election, records: list[Message]) -> Refusal:
    """Adds the partition's record, if there is one. The outcome is NONE where there is."""
    topic = electorate.image.topics_by_name.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
    if number not in topic.partitions:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{number}.")
    place = Place(topic, number)
    if not _is_due(place.state, election):
        return Refusal(ErrorCode.ELECTION_NOT_NEEDED, "The leader is the right one already.")
    change = electorate.change(place)
    change.election = election
    record = change.record()
    if record is None:
        if election is Election.PREFERRED:
            return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader is not available.")
        return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is available.")
    records.append(record)
    return Refusal(ErrorCode.NONE)


def _is_due(state: PartitionImage, election: Election) -> bool:
    if election is Election.PREFERRED:
        return state.leader != state.replicas[0]
    return state.leader == NO_LEADER


def balance_leaders(electorate: Electorate) -> Decision[bool]:
    """Preferred leaders lead again wherever they can. The response is whether there may be more to do."""
    return _elect_due(electorate, Election.PREFERRED)


def elect_unclean_leaders(electorate: Electorate) -> Decision[bool]:
    """Partitions that nobody leads, of topics that would rather lose records than wait (unclean recovery)."""
    return _elect_due(electorate, Election.UNCLEAN)


def _elect_due(electorate: Electorate, election: Election) -> Decision[bool]:
    records: list[Message] = []
    for place in electorate.places(lambda state: _is_due(state, election)):
        if len(records) == ELECTIONS_AT_ONCE_MAX:
            return Decision(records, True)
        if election is Election.UNCLEAN and not electorate.unclean_allowed(place.topic):
            continue
        change = electorate.change(place)
        change.election = election
        record = change.record()
        if record is not None:
            records.append(record)
    return Decision(records, False)
