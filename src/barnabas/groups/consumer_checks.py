"""Why a ConsumerGroupHeartbeat is refused: the checks that need no group, and the words for people."""

from collections.abc import Container
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.groups.consumer_member import JOINING, LEFT, LEFT_FOR_A_WHILE
from barnabas.groups.consumer_settings import ConsumerSettings
from barnabas.groups.outcome import Outcome, Pending, answer
from barnabas.groups.regular_expressions import InvalidExpression, compile_expression
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

MEMBER_ID_REQUIRED_VERSION = 1  # from here on members choose their ids themselves


class Refusal(NamedTuple):
    error: ErrorCode
    message: str

    def answer(self, pending: Pending) -> Outcome:
        return answer(pending, ConsumerGroupHeartbeatResponse(error_code=self.error, error_message=self.message))


def check(request: ConsumerGroupHeartbeatRequest, api_version: int, settings: ConsumerSettings) -> Refusal | None:
    """What is wrong with it whatever the group may be."""
    epoch = request.member_epoch
    needs_id = api_version >= MEMBER_ID_REQUIRED_VERSION or epoch > JOINING or epoch == LEFT
    empty = [
        name
        for name, text in (
            ("MemberId", request.member_id if needs_id else None),
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        )
        if text is not None and not text.strip()
    ]
    if empty:
        return _invalid(f"{empty[0]} can't be empty.")
    if epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            return _invalid("A member that joins must give its RebalanceTimeoutMs.")
        if request.topic_partitions is None or request.topic_partitions:
            return _invalid("A member that joins owns nothing: TopicPartitions must be empty, and there.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return _invalid("A member that joins must give SubscribedTopicNames or SubscribedTopicRegex.")
    if epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        return _invalid("Only a member with an InstanceId can leave for a while.")
    if epoch < LEFT_FOR_A_WHILE:
        return _invalid(f"There is no MemberEpoch {epoch}.")
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        offered = ", ".join(settings.assignors)
        message = f"There is no assignor {request.server_assignor!r} here, but {offered}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def no_member(error: ErrorCode, request: ConsumerGroupHeartbeatRequest) -> Refusal:
    who = f"Member {request.member_id}"
    if error == ErrorCode.FENCED_INSTANCE_ID:
        return Refusal(error, f"{who} is fenced: another process came later with instance id {request.instance_id}.")
    return Refusal(error, f"{who} is not in group {request.group_id}.")


def check_expression(request: ConsumerGroupHeartbeatRequest, known: Container[str] = ()) -> Refusal | None:
    """`known` are the expressions that the group has already, and that therefore are valid."""
    expression = request.subscribed_topic_regex
    if not expression or expression in known:
        return None
    try:
        compile_expression(expression)
    except InvalidExpression as error:
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{expression!r} is not a valid expression: {error}.")
    return None


def no_room(size_max: int) -> Refusal:
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has as many members as it may have: {size_max}.")
