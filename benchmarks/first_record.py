"""From nothing to the first acknowledged record, in a test: `python benchmarks/first_record.py [--times N]`.

Three ways: the first broker of a process, which is also imported then; a later one; one in a process of its own. Each
is timed from before `Kafka(...)` to the moment at which the client, confluent-kafka, reports the record as written to
a topic that was not there before. The client is imported and made beforehand where that can be; the best counts, for
the rest is other people's work on the same machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

PROGRAM = """
import sys, time
from confluent_kafka import Producer
from barnabas.testing import Kafka

def first_record(**options):
    began = time.perf_counter()
    with Kafka(**options) as kafka:
        up = time.perf_counter()
        done = []
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0,
                             "topic.metadata.refresh.fast.interval.ms": 10})
        producer.produce(kafka.create_topic("letters"), b"x", on_delivery=lambda error, _: done.append(error))
        producer.flush(30)
        assert done == [None], done
        return up - began, time.perf_counter() - began

kinds = {"first": ({},), "later": ({}, {}), "own": ({"subprocess": True},)}
print(*[first_record(**options) for options in kinds[sys.argv[1]]][-1])
"""
KINDS = {"first": "the first of a process", "later": "a later one", "own": "in a process of its own"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=10)
    times = options.parse_args().times
    print(f"| broker | up, ms | first record acknowledged, ms | (best of {times}) |\n|---|---|---|---|")
    for kind, words in KINDS.items():
        found = []
        for _ in range(times):
            ran = subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, check=True)
            found.append(tuple(float(text) * 1000 for text in ran.stdout.split()))
            time.sleep(0.05)
        up, record = (min(column) for column in zip(*found, strict=True))
        print(f"| {words} | {up:.0f} | {record:.0f} | |")


if __name__ == "__main__":
    main()
