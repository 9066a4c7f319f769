"""A reader of committed offsets that asks any broker, and believes each that answers.

So it finds out when a broker still answers for a group that another one coordinates by now. It is never cut off itself:
it stands on both sides of every partition between brokers.
"""

from barnabas.simulation.client import Client
from barnabas.simulation.committed_offsets import OffsetsQuestion, fetch_committed
from barnabas.simulation.participants import Board, RequestingParticipant


class OffsetsReader(RequestingParticipant):
    def __init__(self, client: Client, board: Board, *, groups: list[str], topics: tuple[str, ...]) -> None:
        super().__init__(client, board)
        self._groups = groups
        self._topic_names = topics

    async def step(self) -> None:
        random = self.client.random
        group = random.choice(self._groups)
        connection = await self.client.connection(random.choice(self.client.bootstrap))
        for topic in [each for each in self.board.topics.values() if each.name in self._topic_names]:
            question = OffsetsQuestion(group=group, member=self.client.name, partition_ids=list(topic.partition_ids()))
            await fetch_committed(self.client, connection, self.board.history, topic, question)
        self.progress += 1
