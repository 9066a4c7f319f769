"""When others lead what the target of a fault led: asked of a node that nothing was done to, until it says so."""

from __future__ import annotations

import threading
import time

from nodes import Node
from wire import METADATA_VERSION, Closed

from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

ASK_SECONDS = 0.05
NO_LEADER = -1


class Takeover(threading.Thread):
    """Counts from `start`. `finish` gives the seconds, or None where nobody took over meanwhile."""

    def __init__(self, witness: Node, topic: str, partitions: list[int], targets: list[int]) -> None:
        super().__init__(name="takeover")
        self._witness = witness
        self._request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        self._partitions = partitions
        self._nobody = {NO_LEADER, *targets}
        self._finish = threading.Event()
        self._seconds: float | None = None

    def run(self) -> None:
        began = time.monotonic()
        while not self._finish.wait(ASK_SECONDS):
            if self._is_over():
                self._seconds = time.monotonic() - began
                return

    def finish(self) -> float | None:
        self._finish.set()
        self.join()
        return self._seconds

    def _is_over(self) -> bool:
        try:
            (topic,) = self._witness.ask(self._request, METADATA_VERSION).topics
        except (OSError, Closed):
            return False
        leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        return all(leaders.get(partition, NO_LEADER) not in self._nobody for partition in self._partitions)
