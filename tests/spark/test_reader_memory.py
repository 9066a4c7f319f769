"""What a task holds in memory is bounded by its fetches, however large the topic is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from client_libraries import confluent_kafka as ck
from committed import create_topic

SMALL, LARGE = 10_000, 100_000  # records of 1 kB: 10 and 100 MB in one split
# A few fetches and what Arrow makes of one, in more than one piece, with room for the allocator.
GROWTH_BYTES_MAX = 48 << 20
# Reads everything as tasks do, and says how many rows there were and the most memory that it took.
TASK = """
import resource, sys
from barnabas.spark.reading.batch_reader import BatchReader
from barnabas.spark.options import READ_OPTIONS, Options
from barnabas.spark.schema import arrow_schema, columns
options = Options(dict(each.split("=", 1) for each in sys.argv[1:]), READ_OPTIONS)
reader = BatchReader(options, arrow_schema(columns(options)))
rows = sum(batch.num_rows for split in reader.partitions() for batch in reader.read(split))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def fill(address: str, topic: str, count: int) -> None:
    create_topic(address, topic, 1)
    producer = ck.Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b"x" * 1000, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("memory")
    with BrokerProcess(data=data) as found:
        fill(found.address, "small", SMALL)
        fill(found.address, "large", LARGE)
    with BrokerProcess(data=data) as again:  # stopped once, so that the checkpoint has everything
        yield again


def peak_bytes(expected: int, **given: str) -> int:
    settings = [f"{name.replace('__', '.')}={value}" for name, value in {"splitBytes": str(1 << 40), **given}.items()]
    done = subprocess.run([sys.executable, "-c", TASK, *settings], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows, peak = done.stdout.split()
    assert int(rows) == expected
    return int(peak)


def test_memory_does_not_grow_with_the_topic(broker: BrokerProcess) -> None:
    for where in ({"kafka__bootstrap__servers": broker.address}, {"logDirs": str(broker.node_directory)}):
        small = peak_bytes(SMALL, subscribe="small", **where)
        large = peak_bytes(LARGE, subscribe="large", **where)
        assert large - small < GROWTH_BYTES_MAX, (where, small, large)
