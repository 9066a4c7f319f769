"""What thousands of partitions cost while nobody uses them: `python benchmarks/idle_replicas.py [--replicas N]`.

Three brokers on disk with N replicas each, all in sync: processor time of the three in some quiet seconds, their
memory, how long a stop in good order takes, and a start until every partition can be written to again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from broker_process import resident_bytes, wait_until
from cluster_process import ClusterProcess

from barnabas.client.admin.topics import NewTopic
from barnabas.client.synchronous import Admin

TOPIC_PARTITIONS = 300
SECONDS_MAX = 300


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--replicas", type=int, default=3000, help="of each broker")
    options.add_argument("--seconds", type=float, default=20.0, help="of quiet")
    given = options.parse_args()
    topics = {f"idle-{number}": TOPIC_PARTITIONS for number in range(given.replicas // TOPIC_PARTITIONS)}
    with tempfile.TemporaryDirectory(prefix="barnabas-idle-") as data, ClusterProcess(data=Path(data)) as cluster:
        before = cpu_seconds(cluster)
        print(f"no partitions: {busy(cluster, given.seconds):.2f} % of a core, {megabytes(cluster):.0f} MB")
        print(f"created in {timed(lambda: create(cluster, topics)):.1f} s")
        time.sleep(5)  # what a new partition leaves to be done
        print(f"processor time so far: {cpu_seconds(cluster) - before:.1f} s")
        print(f"{given.replicas} replicas each, idle: {busy(cluster, given.seconds):.2f} % of a core for all three")
        print(f"memory of the three: {megabytes(cluster):.0f} MB")
        print(f"stopped in {timed(cluster.stop):.1f} s")
        print(f"ready again in {timed(cluster.start):.1f} s", end="")
        print(f", all in sync {timed(lambda: wait_in_sync(cluster, topics)):.1f} s later")


def create(cluster: ClusterProcess, topics: dict[str, int]) -> None:
    with Admin(bootstrap_servers=cluster.address, default_api_timeout_ms=SECONDS_MAX * 1000) as admin:
        wanted = [NewTopic(name=name, partitions=count, replication_factor=3) for name, count in topics.items()]
        admin.create_topics(wanted).unwrap()
    wait_in_sync(cluster, topics)


def wait_in_sync(cluster: ClusterProcess, topics: dict[str, int]) -> None:
    with Admin(bootstrap_servers=cluster.address) as admin:

        def is_whole() -> bool:
            found = admin.describe_topics(list(topics)).done
            partitions = [each for topic in found.values() for each in topic.partitions]
            return len(partitions) == sum(topics.values()) and all(len(each.isr) == 3 for each in partitions)

        wait_until(is_whole, "all replicas are in sync", SECONDS_MAX)


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def busy(cluster: ClusterProcess, seconds: float) -> float:
    began, before = time.monotonic(), cpu_seconds(cluster)
    time.sleep(seconds)
    return 100 * (cpu_seconds(cluster) - before) / (time.monotonic() - began)


def cpu_seconds(cluster: ClusterProcess) -> float:
    ticks = 0
    for pid in cluster.broker_pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(cluster: ClusterProcess) -> float:
    return sum(resident_bytes(pid) for pid in cluster.broker_pids()) / 1e6


if __name__ == "__main__":
    main()
