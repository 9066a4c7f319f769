"""`barnabas up --brokers N` as a process of its own, with its brokers as children.

Holds: a started cluster has printed its ready line, with an address for each broker. Leaving the `with` block ends all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker_process import BrokerProcess, wait_until


class ClusterProcess(BrokerProcess):
    def __init__(
        self,
        *,
        brokers: int = 3,
        data: Path | None = None,
        port: int = 0,
        config: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(data=data, port=port, config=config, arguments=["--brokers", str(brokers)])
        self.ids = range(1, brokers + 1)
        self.addresses: list[str] = []

    @property
    def address(self) -> str:
        """For clients: all brokers."""
        return ",".join(self.addresses)

    def start(self) -> ClusterProcess:
        asked = self.port
        super().start()
        self.port = asked
        self.addresses = self.ready_line.removeprefix("ready ").split(",")
        return self

    def broker_directory(self, node_id: int) -> Path:
        assert self.data is not None
        return self.data / f"node-{node_id}"

    def broker_pid(self, node_id: int) -> int:
        return int((self.broker_directory(node_id) / "pid").read_text())

    def broker_pids(self) -> list[int]:
        return [self.broker_pid(node_id) for node_id in self.ids]

    @property
    def pids(self) -> list[int]:
        """The supervisor included."""
        return [self.pid, *self.broker_pids()]


def wait_until_ended(pids: list[int]) -> None:
    def is_running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    wait_until(lambda: not any(is_running(pid) for pid in pids), f"processes {pids} have ended")
