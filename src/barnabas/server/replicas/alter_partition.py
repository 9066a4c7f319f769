"""Changes of the in-sync replicas, asked of the controller: all that are wanted at a time in one request.

Always holds: at most one request is out. A change whose fate is not known (no answer came) is asked for again, and
counts neither as made nor as refused until the controller or the metadata log says which.
Does not know: why a change is wanted; partitions say what they want when the request is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.connection import ConnectionLost
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from barnabas.runtime.interfaces import Clock
from barnabas.server.replicas.partition import Partition
from barnabas.server.supervisor import OnFailure, Supervisor, ended, is_running
from barnabas.types import BrokerId, Uuid

logger = logging.getLogger(__name__)

PURPOSE = "alter-partition"
RETRY_MS = 50
RECOVERED = 0

# The controller did not do it, and the leader may think again.
REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST)
# The controller knows more than this broker does yet; the metadata log will tell.
OUTDATED = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class InSyncChanges:
    def __init__(
        self,
        *,
        node_id: BrokerId,
        broker_epoch: Callable[[], int],
        send: Callable[[AlterPartitionRequest], Awaitable[Any]],
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._clock = clock
        self._supervisor = supervisor
        self._wanted: dict[Partition, None] = {}
        self._task: asyncio.Task[None] | None = None

    def ask(self, partition: Partition) -> None:
        self._wanted[partition] = None
        if not is_running(self._task):
            self._task = self._supervisor.start("changing in-sync replicas", self._run, OnFailure.RETRY)

    async def stop(self) -> None:
        self._wanted.clear()
        await ended(self._task)

    async def _run(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            asked = {
                (partition.topic_id, partition.name.partition): partition
                for partition in wanted
                if partition.in_sync_wanted is not None
            }
            if asked:
                again = list(asked.values())  # unless an answer says otherwise
                try:
                    again = await self._ask(asked)
                except ConnectionLost as error:
                    logger.debug("no answer about in-sync replicas: %s", error)
                finally:
                    self._wanted = {**dict.fromkeys(again), **self._wanted}
                if again:
                    await self._clock.sleep(RETRY_MS)

    async def _ask(self, asked: dict[tuple[Uuid, int], Partition]) -> list[Partition]:
        """Those to ask for again."""
        response = await self._send(self._request(asked.values()))
        if response.error_code != ErrorCode.NONE:
            raise ConnectionLost(f"the controller answers {ErrorCode(response.error_code).name}")
        again = []
        for topic in response.topics:
            for answer in topic.partitions:
                partition = asked.get((topic.topic_id, answer.partition_index))
                if partition is not None and not take(partition, answer):
                    again.append(partition)
        first = next(iter(asked.values()))
        logger.info("%s: in sync are now %s; asked for %d more too", first.name, first.in_sync, len(asked) - 1)
        return again

    def _request(self, partitions: Any) -> AlterPartitionRequest:
        topics: dict[Uuid, RequestTopicData] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic_id, RequestTopicData(topic_id=partition.topic_id, partitions=[]))
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=partition.name.partition,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    leader_recovery_state=RECOVERED,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=replica, broker_epoch=self._epoch_of(partition, replica))
                        for replica in partition.in_sync_wanted
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _epoch_of(self, partition: Partition, replica: BrokerId) -> int:
        return self._broker_epoch() if replica == self._node_id else partition.broker_epoch_of(replica)


def take(partition: Partition, answer: ResponsePartitionData) -> bool:
    """Carries out what the controller said of one partition; False where it has to be asked again."""
    error = ErrorCode(answer.error_code)
    if error == ErrorCode.NONE:
        logger.debug("%s: in sync are now %s", partition.name, answer.isr)
        partition.in_sync_answered(
            leader_epoch=answer.leader_epoch, partition_epoch=answer.partition_epoch, in_sync=tuple(answer.isr)
        )
    elif error in REFUSED:
        logger.info("%s: the controller refuses to change who is in sync: %s", partition.name, error.name)
        partition.in_sync_refused()
    elif error not in OUTDATED:
        return False
    return True
