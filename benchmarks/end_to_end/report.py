"""Figures of several rounds as tables of markdown, with their ratios and whether a goal is reached. Pure."""

from __future__ import annotations

import statistics
from typing import NamedTuple

Rounds = list[dict[str, float]]
RATE_MIN = 100_000
READY_SECONDS_MAX = 1.5


class Measurement(NamedTuple):
    key: str
    title: str
    unit: str
    goal: float | None = None  # of the ratio Barnabas / Kafka
    at_least: bool = True  # whether the ratio has to be at least, or at most, the goal


MEASUREMENTS = (
    Measurement("produce_100", "librdkafka, produce 100 B", "messages/s", 1.5),
    Measurement("produce_1024", "librdkafka, produce 1 KiB", "MB/s", 1.5),
    Measurement("consume_100", "librdkafka, consume 100 B", "messages/s", 1.0),
    Measurement("consume_1024", "librdkafka, consume 1 KiB", "MB/s", 1.0),
    Measurement("single", "librdkafka, one record a request", "requests/s", 1.3),
    Measurement("performance_100", "ProducerPerformance 100 B", "records/s", 1.5),
    Measurement("performance_1024", "ProducerPerformance 1 KiB", "MB/s", 1.5),
    Measurement("performance_single", "ProducerPerformance, one record a batch", "records/s", 1.3),
    Measurement("latency_average", "EndToEndLatency, average", "ms"),
    Measurement("latency_99", "EndToEndLatency, p99", "ms", 1.0, at_least=False),
    Measurement("latency_999", "EndToEndLatency, p99.9", "ms"),
    Measurement("transactions_one", "transactions, one producer", "commits/s", 1.2),
    Measurement("transactions_many", "transactions, several producers", "commits/s", 1.2),
    Measurement("transactions_latency", "transaction to read_committed, median", "ms"),
    Measurement("transactions_latency_p99", "transaction to read_committed, p99", "ms"),
    Measurement("cold_rate", "reader of data that is not cached", "MB/s"),
    Measurement("cold_alone_99", "produce alone, p99", "ms"),
    Measurement("cold_alone_999", "produce alone, p99.9", "ms"),
    Measurement("cold_50", "produce beside that reader, median", "ms"),
    Measurement("cold_99", "produce beside that reader, p99", "ms", 1.0, at_least=False),
    Measurement("cold_999", "produce beside that reader, p99.9", "ms", 1.0, at_least=False),
    Measurement("memory_idle", "resident memory, idle", "MB", 0.1, at_least=False),
    Measurement("memory_loaded", "resident memory, most under load", "MB", 0.1, at_least=False),
    Measurement("start", "process start to first answer", "s", 0.2, at_least=False),
)


def number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1e6:
        return f"{value / 1e6:.2f}M"
    if value >= 1e4:
        return f"{value / 1e3:.0f}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def median(rounds: Rounds, key: str) -> float | None:
    values = [figures[key] for figures in rounds if key in figures]
    return statistics.median(values) if values else None


def spread(rounds: Rounds, key: str) -> str:
    values = sorted(figures[key] for figures in rounds if key in figures)
    return f" ({number(values[0])} to {number(values[-1])})" if len(values) > 1 else ""


def comparison(barnabas: Rounds, kafka: Rounds) -> list[str]:
    lines = ["| measurement | unit | Barnabas | Apache Kafka | ratio | goal | |", "|---|---|---|---|---|---|---|"]
    for each in MEASUREMENTS:
        own, other = median(barnabas, each.key), median(kafka, each.key)
        if own is None:
            continue
        ratio = own / other if other else None
        goal = "" if each.goal is None else f"{'≥' if each.at_least else '≤'} {each.goal:g}"
        reached = ""
        if ratio is not None and each.goal is not None:
            reached = "yes" if (ratio >= each.goal if each.at_least else ratio <= each.goal) else "**no**"
        cells = [
            each.title,
            each.unit,
            number(own) + spread(barnabas, each.key),
            number(other) + spread(kafka, each.key) if other is not None else "",
            "" if ratio is None else f"{ratio:.2f}",
            goal,
            reached,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def absolute(barnabas: Rounds) -> list[str]:
    """Goals that are no ratio: for three brokers, whatever Apache Kafka does."""
    rate, ready = median(barnabas, "produce_100"), median(barnabas, "start")
    assert rate is not None
    assert ready is not None
    return [
        f"- never below {RATE_MIN:,} messages of 100 B a second: {'yes' if rate >= RATE_MIN else '**no**'}",
        f"- ready within {READY_SECONDS_MAX} s: {'yes' if ready <= READY_SECONDS_MAX else '**no**'}",
    ]


def flatness(title: str, rows: list[tuple[int, float, float]]) -> list[str]:
    lines = [f"| {title} | produce, µs | fetch, µs |", "|---|---|---|"]
    lines += [f"| {count:,} | {produce:.0f} | {fetch:.0f} |" for count, produce, fetch in rows]
    first, last = rows[0], rows[-1]
    lines.append(f"| last / first | {last[1] / first[1]:.2f} | {last[2] / first[2]:.2f} |")
    return lines
