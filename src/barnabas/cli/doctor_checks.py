"""What `barnabas doctor` looks at, one function for each question.

Always holds: nothing is changed, started or left behind. A check that cannot be made says so, and is no failure.
Does not know: how findings are shown.
"""

import fcntl
import importlib.metadata
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from barnabas.cli.serve import PID_FILE_NAME
from barnabas.cli.text import bracketed
from barnabas.client.cluster import ANY, Cluster
from barnabas.client.errors import KafkaError
from barnabas.client.settings import AdminConfig
from barnabas.log.checkpoint import META_PROPERTIES_FILE_NAME, CheckpointError, decode_meta_properties
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.server.replicas.log_directory import LOCK_FILE_NAME

OK, WARNING, WRONG = "ok", "warning", "wrong"
DESCRIPTORS_MIN = 4096  # each partition may need a few, each connection one
SPACE_PART_MIN = 0.05  # of a disk that should be free,
SPACE_BYTES_MIN = 1 << 30  # unless so much is,
SPACE_BYTES_NEEDED = 64 << 20  # and without so much no broker does anything useful
SKEW_MS_MAX = 1_000  # timestamps decide about retention and lookups by time
NEEDED = {"crc32c": "batches are checked by it", "cramjam": "compressed batches need it"}
USEFUL = {"uvloop": "brokers are slower without it", "typer": "the command line needs it", "rich": "tables need it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    status: str
    found: str
    advice: str | None = None


def python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check(name="python", status=OK, found=f"{version} at {sys.executable}")
    for package, why in {"barnabas": "", **NEEDED, **USEFUL}.items():
        try:
            yield Check(name=f"package {package}", status=OK, found=importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            status = WRONG if package in NEEDED else WARNING
            advice = f"pip install {package}: {why}" if why else None
            if package != "barnabas":  # which may well run from its sources
                yield Check(name=f"package {package}", status=status, found="not installed", advice=advice)


def descriptors() -> Iterator[Check]:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        advice = f"raise it to {DESCRIPTORS_MIN} or more (ulimit -Hn), or keep partitions and connections few"
        yield Check(name="open files", status=WARNING, found=f"at most {words}", advice=advice)
    else:
        yield Check(name="open files", status=OK, found=f"at most {words}")


def port(host: str, number: int) -> Iterator[Check]:
    """Whether a broker could listen there."""
    name = f"port {number}"
    try:
        family, kind, protocol, _canonical, address = socket.getaddrinfo(
            host or None, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        advice = f"stop what listens there, or choose another: barnabas up --port {number + 1}"
        yield Check(name=name, status=WARNING, found=f"taken at {host}: {error.strerror}", advice=advice)
    else:
        yield Check(name=name, status=OK, found=f"free at {host}")


def data_directory(path: Path) -> Iterator[Check]:
    """One node's directory, or one with several nodes in it."""
    existing = path
    while not existing.exists():
        existing = existing.parent
    yield from _writable(existing)
    yield from _space(existing)
    nodes = [path, *sorted(path.glob("node-*"))] if path.is_dir() else []
    for node in nodes:
        if (node / META_PROPERTIES_FILE_NAME).exists():
            yield from _node(node)


def _writable(path: Path) -> Iterator[Check]:
    if path.is_dir() and os.access(path, os.W_OK | os.X_OK):
        yield Check(name=f"directory {path}", status=OK, found="writable")
    else:
        why = "not writable by this user" if path.is_dir() else "not a directory"
        advice = "choose another by barnabas up --data DIR, or let this user write there"
        yield Check(name=f"directory {path}", status=WRONG, found=why, advice=advice)


def _space(path: Path) -> Iterator[Check]:
    total, _used, free = shutil.disk_usage(path)
    found = f"{free / 2**30:.1f} GiB of {total / 2**30:.1f} GiB are free"
    advice = "free some space, or let topics keep less (retention.bytes, retention.ms)"
    status = WRONG if free < SPACE_BYTES_NEEDED else OK
    if status == OK and free < SPACE_PART_MIN * total and free < 10 * SPACE_BYTES_MIN:
        status = WARNING
    yield Check(name=f"disk of {path}", status=status, found=found, advice=None if status == OK else advice)


def _node(path: Path) -> Iterator[Check]:
    name = f"node in {path}"
    try:
        file = path / META_PROPERTIES_FILE_NAME
        owner = decode_meta_properties(file.read_bytes(), str(file))
    except (CheckpointError, OSError) as error:
        advice = "restore the file from a backup, or use another directory"
        yield Check(name=name, status=WRONG, found=str(error), advice=advice)
        return
    whose = f"node {owner.node_id} of cluster {owner.cluster_id}"
    process_id = _process_id(path)
    if _is_locked(path / LOCK_FILE_NAME):
        if process_id is not None and _runs(process_id):
            yield Check(name=name, status=OK, found=f"{whose}, in use by process {process_id}")
        else:
            advice = "find who holds its file .lock (fuser, lsof), or use another directory"
            yield Check(name=name, status=WARNING, found=f"{whose}, in use by a process unknown", advice=advice)
    elif process_id is not None:
        advice = "nothing to do: the next broker recovers what was not written in full, and takes the directory over"
        found = f"{whose}, left by process {process_id} which did not stop in good order"
        yield Check(name=name, status=WARNING, found=found, advice=advice)
    else:
        yield Check(name=name, status=OK, found=f"{whose}, not in use")


def _process_id(path: Path) -> int | None:
    try:
        return int((path / PID_FILE_NAME).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def brokers(config: AdminConfig, timeout_ms: int, *, is_expected: bool) -> list[Check]:
    """What a client with this config meets. `is_expected`: somebody said that a broker runs there."""
    cluster = Cluster(config)
    try:
        await cluster.start(timeout_ms)
    except KafkaError as error:
        await cluster.close()
        advice = "start one by barnabas up, or name another by --bootstrap-server"
        return [Check(name="broker", status=WRONG if is_expected else WARNING, found=str(error), advice=advice)]
    try:
        servers = ",".join(f"{bracketed(host)}:{port}" for host, port in config.bootstrap_servers)
        found = f"cluster {cluster.metadata.cluster_id} answers at {servers}"
        checks = [Check(name="broker", status=OK, found=found)]
        nodes = list(cluster.brokers.values())
        checks += [await _advertised(cluster, node.node_id, f"{node.host}:{node.port}") for node in nodes]
        checks += await _clock(cluster, timeout_ms)
        checks.append(_features(cluster))
        return checks
    finally:
        await cluster.close()


async def _advertised(cluster: Cluster, node_id: int, address: str) -> Check:
    """Clients are told where each broker is and connect there, whatever they were given to begin with."""
    name = f"broker {node_id} at {address}"
    try:
        _connection, versions = await cluster.connected(node_id)
    except KafkaError as error:
        advice = (
            "clients are told this address and cannot reach it: set advertised.listeners of that broker to one that "
            "they can, or start the broker"
        )
        return Check(name=name, status=WRONG, found=str(error), advice=advice)
    served = versions.ranges.get(ApiKey.FETCH, (0, -1))
    return Check(name=name, status=OK, found=f"reachable, serves {len(versions.ranges)} APIs, Fetch up to {served[1]}")


async def _clock(cluster: Cluster, timeout_ms: int) -> list[Check]:
    """The leader of the quorum says when it was last caught up with itself, which is now."""
    request = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])]
    )
    clock = cluster.runtime.clock
    try:
        before_ms = clock.now_ms()
        response = await cluster.request(ANY, request, timeout_ms=timeout_ms, version_min=1)
        after_ms = clock.now_ms()
    except KafkaError as error:
        return [Check(name="clock", status=WARNING, found=f"could not be compared: {error}")]
    quorum = response.topics[0].partitions[0]
    told = [each.last_caught_up_timestamp for each in quorum.current_voters if each.replica_id == quorum.leader_id]
    if not told or told[0] <= 0:
        return [Check(name="clock", status=WARNING, found="the broker does not tell its time")]
    skew_ms = max(before_ms - told[0], told[0] - after_ms, 0)
    if skew_ms > SKEW_MS_MAX:
        advice = "let both machines follow a time server: retention and lookups by time go by timestamps"
        return [Check(name="clock", status=WARNING, found=f"{skew_ms} ms apart from the controller", advice=advice)]
    return [Check(name="clock", status=OK, found=f"within {SKEW_MS_MAX} ms of the controller")]


def _features(cluster: Cluster) -> Check:
    found = ", ".join(f"{name} {level}" for name, level in sorted(cluster.features.items())) or "none"
    return Check(name="features", status=OK, found=found)
