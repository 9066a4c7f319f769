"""A cluster as one partition sees it, for tests that have no other brokers."""

from barnabas.server.replicas.partition import Partition
from barnabas.types import BrokerId


class FakeCluster:
    """Everybody is alive and eligible; what a partition asks for is written down."""

    node_id: BrokerId = 1
    holds_lease = True

    def __init__(self, lag_ms_max: float = 30_000.0) -> None:
        self.lag_ms_max = lag_ms_max
        self.gone: dict[BrokerId, None] = {}
        self.broker_epochs: dict[BrokerId, int] = {}  # of incarnations that are registered; others have any
        self.asked: list[tuple[BrokerId, ...] | None] = []  # which in-sync replicas, each time
        self.failures: list[OSError] = []

    def is_eligible(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        return broker_id not in self.gone and self.broker_epochs.get(broker_id, broker_epoch) == broker_epoch

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id not in self.gone

    def truncated(self, partition: Partition) -> None:
        """Nothing is written down here."""

    def storage_failed(self, partition: Partition, error: OSError) -> None:
        self.failures.append(error)

    def ask_in_sync(self, partition: Partition) -> None:
        self.asked.append(partition.in_sync_wanted)
