"""How long a crash keeps a writer waiting: kill -9, again and again, and the time to the next acknowledged write."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cases import IDS, WRITE_AGAIN_SECONDS_MAX
from clients import Writer, quiet
from confluent_kafka.admin import AdminClient, NewTopic
from nodes import Nodes
from places import Loopback

TOPIC = "failover"
SETTLE_SECONDS = 0.5  # of writing, before each kill


def measure(who: str, times: int, say: Callable[[str], None]) -> list[float]:
    """Seconds without an acknowledged write to a partition, for each kill of its leader, or of the controller."""
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory,
        Loopback(IDS) as network,
        Nodes(Path(directory), network) as nodes,
    ):
        admin = AdminClient(quiet(nodes.bootstrap))
        admin.create_topics([NewTopic(TOPIC, 1, len(IDS))])[TOPIC].result(30)
        nodes.wait_until_whole()
        for _ in range(times):
            target = nodes.leader_id(TOPIC) if who == "leader" else nodes.controller_id()
            writer = Writer(nodes.bootstrap, TOPIC, 1)
            writer.start()
            writer.wait_for_each(WRITE_AGAIN_SECONDS_MAX)
            time.sleep(SETTLE_SECONDS)
            writer.acknowledged[0].silence_seconds = 0.0
            nodes.nodes[target].kill()
            writer.wait_for_each(WRITE_AGAIN_SECONDS_MAX)
            time.sleep(SETTLE_SECONDS)
            writer.finish()
            assert not writer.failures, writer.failures[0]
            found.append(writer.silence_seconds([0]))
            say(f"kill -9, {who}: {found[-1]:.2f} s")
            nodes.start_dead()
            nodes.wait_until_whole()
    return found


def table(measured: dict[str, list[float]]) -> list[str]:
    lines = ["| killed with -9 | times | median, s | least | most |", "|---|---|---|---|---|"]
    for who, seconds in measured.items():
        figures = (statistics.median(seconds), min(seconds), max(seconds))
        cells = [who, str(len(seconds)), *(f"{each:.2f}" for each in figures)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
