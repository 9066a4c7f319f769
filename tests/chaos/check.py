"""What must hold after a fault: nothing acknowledged is lost, nothing is there twice, and all replicas are equal.

Pure, apart from reading the files of nodes that have stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from clients import Acknowledged

from barnabas.protocol.record_batch import HEADER_BYTES, read_header

METADATA_DIRECTORY = "__cluster_metadata-0"


def records(acknowledged: dict[int, Acknowledged], found: dict[int, list[int]]) -> list[str]:
    """What is wrong with the numbers found in each partition."""
    wrong = []
    for partition, numbers in found.items():
        promised = acknowledged[partition].offsets
        counts = Counter(numbers)
        lost = [number for number in promised if number not in counts]
        twice = [number for number, count in counts.items() if count > 1]
        if lost:
            wrong.append(f"partition {partition}: {len(lost)} acknowledged records are lost, the first {lost[0]}")
        if twice:
            wrong.append(f"partition {partition}: {len(twice)} records are there twice, the first {twice[0]}")
        if not twice and numbers != sorted(numbers):
            wrong.append(f"partition {partition}: records are out of order")
    return wrong


def log_directories(data: Path) -> dict[str, Path]:
    """Of the topics' partitions, by name."""
    found = {path.name: path for path in sorted(data.iterdir()) if (path / "partition.metadata").exists()}
    found.pop(METADATA_DIRECTORY, None)
    return found


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def are_level(nodes: Iterable[Path]) -> bool:
    """Whether every replica has as many bytes as the others."""
    found = [{name: log_bytes(path) for name, path in log_directories(data).items()} for data in nodes]
    return all(each == found[0] for each in found)


def replicas(nodes: Iterable[Path]) -> tuple[int, list[str]]:
    """Bytes compared, and what differs between the logs of nodes that have stopped."""
    nodes = list(nodes)
    wrong: list[str] = []
    compared = 0
    names = {name for data in nodes for name in log_directories(data)}
    for name in sorted(names):
        contents = [b"".join(path.read_bytes() for path in sorted((data / name).glob("*.log"))) for data in nodes]
        compared += len(contents[0])
        if any(content != contents[0] for content in contents):
            wrong.append(f"{name} differs: {[len(content) for content in contents]} bytes")
    batches = [_batches(data / METADATA_DIRECTORY) for data in nodes]
    for offset in sorted(set.intersection(*(set(each) for each in batches))):
        compared += len(batches[0][offset])
        if any(each[offset] != batches[0][offset] for each in batches):
            wrong.append(f"{METADATA_DIRECTORY} differs at offset {offset}")
            break
    return compared, wrong


def _batches(directory: Path) -> dict[int, bytes]:
    """By base offset. Nodes need not end, nor begin, at the same one: the last to stop may have written more."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        content = memoryview(path.read_bytes())
        position = 0
        while position + HEADER_BYTES <= len(content):
            header = read_header(content, position)
            if header.size_bytes <= HEADER_BYTES:
                break
            found[header.base_offset] = bytes(content[position : position + header.size_bytes])
            position += header.size_bytes
    return found
