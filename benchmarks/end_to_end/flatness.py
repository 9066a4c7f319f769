"""Does an operation cost more when more is stored? One request at a time over a raw socket, Barnabas only.

Segments: a partition grows from 1 to 1,000 segments; a batch is appended to its end, and read at random offsets older
than the newest, whose places a broker remembers: those would be cheaper, and more of them where less is stored.
Partitions: a topic has from 1 to 1,000 partitions; a batch is appended to, and read from, random ones.
The figure is the median of many round trips, so that a busy moment of the machine does not count.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from broker_process import BrokerProcess, wait_until
from wire import Wire, batch, create_topic, fetch, produce

from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC_RESOURCE = 2
STEPS = (1, 10, 100, 1_000)
QUICK_STEPS = (1, 10, 100)
DAY_MS = 86_400_000
FIRST_TIMESTAMP_MS = 1_600_000_000_000
VALUE = b"v" * 100
NEWEST = 600  # batches whose places may be remembered
Row = tuple[int, float, float]  # how many, microseconds of a produce, microseconds of a fetch


def median_microseconds(operation: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        operation()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def set_config(wire: Wire, topic: str, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def wait_for(wire: Wire, topic: str, partitions: int) -> None:
    asked = dict.fromkeys(range(partitions), 0)
    wait_until(lambda: not any(each.error_code for each in fetch(wire, topic, asked).values()), "the topic is led")


def over_segments(steps: tuple[int, ...], samples: int, say: Callable[[str], None]) -> list[Row]:
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
        BrokerProcess(data=Path(directory)) as broker,
        Wire(broker.address) as wire,
    ):
        create_topic(wire, "segments", retention_ms="-1")
        wait_for(wire, "segments", 1)
        for step in steps:
            say(f"{step} segments")
            one = {0: grow_to(wire, broker.node_directory / "segments-0", step)}
            produce_cost = median_microseconds(lambda one=one: produce(wire, "segments", one), max(samples, 2 * NEWEST))
            end_offset = fetch(wire, "segments", {0: 0}, partition_bytes_max=1)[0].high_watermark
            offsets = random.Random(step).choices(range(end_offset - NEWEST), k=samples)
            fetch_cost = median_microseconds(
                lambda offsets=offsets: fetch(wire, "segments", {0: offsets.pop()}, partition_bytes_max=1), samples
            )
            rows.append((step, produce_cost, fetch_cost))
    return rows


def grow_to(wire: Wire, files: Path, segments: int) -> bytearray:
    """Adds segments until there are so many; a batch that goes to the last of them.

    A batch a day later than the first of its segment begins a new one, whatever its size.
    """
    set_config(wire, "segments", "segment.ms", str(DAY_MS // 2))
    number = len(list(files.glob("*.log")))
    one = batch(VALUE, timestamp_ms=FIRST_TIMESTAMP_MS + number * DAY_MS)
    for later in range(number + 1, segments + 1):
        one = batch(VALUE, timestamp_ms=FIRST_TIMESTAMP_MS + later * DAY_MS)
        answer = produce(wire, "segments", {0: one})[0]
        assert answer.error_code == 0, answer
    assert len(list(files.glob("*.log"))) == segments
    set_config(wire, "segments", "segment.ms", str(10_000 * DAY_MS))
    return one


def over_partitions(steps: tuple[int, ...], samples: int, say: Callable[[str], None]) -> list[Row]:
    rows = []
    one = batch(VALUE)
    for step in steps:
        say(f"{step} partitions")
        with (
            tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory,
            BrokerProcess(data=Path(directory)) as broker,
            Wire(broker.address) as wire,
        ):
            create_topic(wire, "partitions", step)
            wait_for(wire, "partitions", step)
            for index in range(step):
                produce(wire, "partitions", {index: one})
            places = random.Random(step).choices(range(step), k=2 * samples)
            produce_cost = median_microseconds(
                lambda places=places: produce(wire, "partitions", {places.pop(): one}), samples
            )
            fetch_cost = median_microseconds(
                lambda places=places: fetch(wire, "partitions", {places.pop(): 0}, partition_bytes_max=1), samples
            )
            rows.append((step, produce_cost, fetch_cost))
    return rows
