"""What every checker is: told what clients asked and heard, and now and then shown the nodes themselves.

A checker raises `Violation` as soon as something is not as it must be. `finish` comes after everything has come to
rest: by then every partition has been read from end to end, and every topic has been listed.
Does not know: faults. What a run promises under its faults is said once, in `Promises`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.simulation.history import Event

if TYPE_CHECKING:
    from barnabas.simulation.cluster import SimulatedCluster, SimulatedNode


class Violation(Exception):
    """A guarantee is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What this run's settings and faults leave standing."""

    acks_kept: tuple[int, ...]  # an acknowledgement of such a write is for ever
    one_node: bool  # then every offset that anybody was told is for ever
    syncs_each_batch: bool  # then what a recovery found counts once it is synced, a while after the start


class Checker:
    def __init__(self, promises: Promises) -> None:
        self.promises = promises

    def observe(self, event: Event) -> None:
        """Something has happened between a client and a broker."""

    def inspect(self, cluster: SimulatedCluster) -> None:
        """The nodes as they are now."""

    def inspect_quorum(self, cluster: SimulatedCluster) -> None:
        """Likewise, and also right after a voter has written down what it must remember."""

    def inspect_disk(self, node: SimulatedNode) -> None:
        """Whenever an offloaded call of the node has ended."""

    def finish(self) -> None:
        """Nothing more will happen."""

    def fail(self, message: str) -> None:
        raise Violation(f"{type(self).__name__}: {message}")
