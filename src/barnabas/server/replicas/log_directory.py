"""One log directory of a broker: whose it is, which partitions lie in it, and how far each was known to be good.

    .lock                                held while a broker runs
    meta.properties                      cluster, node and directory ids
    .kafka_cleanshutdown                 there only while no broker runs and the last one ended in good order
    recovery-point-offset-checkpoint     up to where each log is on the platter
    log-start-offset-checkpoint          from where on each log counts, where that is not its first segment
    replication-offset-checkpoint        high watermarks
    cleaner-offset-checkpoint            up to where each log was compacted
    <topic>-<partition>/                 the logs
    <topic>-<partition>.<id>-delete/     deleted, and removed once readers in flight are done

Always holds: one process at a time. The clean-shutdown file is removed before anything is appended.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from barnabas.config.topic import TopicConfig
from barnabas.log import checkpoint
from barnabas.log.checkpoint import MetaProperties
from barnabas.log.log import Log
from barnabas.log.open_segments import OpenSegments
from barnabas.log.recovery import read_topic_id
from barnabas.log.segment import LOG_SUFFIX
from barnabas.metadata.ids import new_uuid
from barnabas.runtime.exclusive import ExclusiveCalls
from barnabas.runtime.interfaces import Lock, Runtime
from barnabas.server.replicas.offsets_file import Offsets, OffsetsFile
from barnabas.types import Offset, TopicPartition, Uuid, uuid_text

logger = logging.getLogger(__name__)

LOCK_FILE_NAME = ".lock"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
NAME_BYTES_MAX = 255  # what file systems allow


class Logs(Protocol):
    """What checkpoints tell of. Asked when a file is written, because that may have to wait."""

    def logs(self) -> Mapping[TopicPartition, Log]: ...

    @property
    def unopened(self) -> Collection[TopicPartition]:
        """Those of this broker that are not open yet: what the files say about them is kept."""


class DirectoryInUse(Exception):
    """Another process holds the directory."""


class DirectoryMismatch(Exception):
    """The directory belongs to another node or cluster."""


class DirectoryFailed(Exception):
    """The disk under the directory does not work any more. A broker has one directory, so it must stop."""


class LogDirectory:
    def __init__(self, runtime: Runtime, path: str) -> None:
        self.path = path
        self.was_clean = False  # whether the broker before this one ended in good order,
        self.clean_broker_epoch = -1  # and the epoch in which it did; -1 where it did not
        self._runtime = runtime
        self._lock: Lock | None = None
        # They name also logs that are gone since they were written.
        self._recovery_points = OffsetsFile(runtime, self._file(checkpoint.RECOVERY_POINT_FILE_NAME))
        self._log_start_offsets = OffsetsFile(runtime, self._file(checkpoint.LOG_START_OFFSET_FILE_NAME))
        self._high_watermarks = OffsetsFile(runtime, self._file(checkpoint.HIGH_WATERMARK_FILE_NAME))
        self._cleaned_offsets = OffsetsFile(runtime, self._file(checkpoint.CLEANER_OFFSET_FILE_NAME))
        self._offsets_files = (
            self._recovery_points,
            self._log_start_offsets,
            self._high_watermarks,
            self._cleaned_offsets,
        )
        self._unsynced_deletions = 0
        self._syncs = ExclusiveCalls()
        self._open_segments = OpenSegments()  # of all logs together, which bounds the descriptors

    # Start and end

    def open(self) -> None:
        disk = self._runtime.disk
        self._make()
        try:
            self._lock = disk.lock(self._file(LOCK_FILE_NAME))
        except BlockingIOError:
            raise DirectoryInUse(f"{self.path} is in use by another broker") from None
        clean_file = self._file(checkpoint.CLEAN_SHUTDOWN_FILE_NAME)
        self.was_clean = disk.exists(clean_file)
        if self.was_clean:
            self.clean_broker_epoch = checkpoint.decode_clean_shutdown(disk.read_bytes(clean_file))
            disk.remove(clean_file)
            disk.sync_directory(self.path)
        for file in self._offsets_files:
            file.read()
        self._remove_deleted()

    @property
    def is_identified(self) -> bool:
        """Whether it belongs to a node already."""
        return self._runtime.disk.exists(self._file(checkpoint.META_PROPERTIES_FILE_NAME))

    def identify(self, node_id: int, cluster_id: str | None = None) -> MetaProperties:
        """Reads who owns the directory, or makes it this node's where nobody does."""
        disk = self._runtime.disk
        path = self._file(checkpoint.META_PROPERTIES_FILE_NAME)
        if disk.exists(path):
            found = checkpoint.decode_meta_properties(disk.read_bytes(path), path)
            if found.node_id != node_id:
                raise DirectoryMismatch(f"{self.path} belongs to node {found.node_id}, not to node {node_id}")
            return found
        if any(self._holds_log(entry) for entry in disk.list_directory(self.path)):
            raise DirectoryMismatch(f"{self.path} holds logs but no {checkpoint.META_PROPERTIES_FILE_NAME} says whose")
        random = self._runtime.random
        made = MetaProperties(
            cluster_id=cluster_id or uuid_text(new_uuid(random)), node_id=node_id, directory_id=new_uuid(random)
        )
        disk.write_atomically(path, checkpoint.encode_meta_properties(made))
        return made

    async def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """`clean` says that every log was flushed and closed: the next start then recovers nothing."""
        for file in self._offsets_files:
            await file.close()
        await self._syncs.ended()
        if clean:
            path = self._file(checkpoint.CLEAN_SHUTDOWN_FILE_NAME)
            data = checkpoint.encode_clean_shutdown(broker_epoch)
            await self._runtime.offload(partial(self._runtime.disk.write_atomically, path, data))
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Logs

    def make_log(
        self, name: TopicPartition, topic_id: Uuid, config: TopicConfig, producer_id_expiration_ms: int
    ) -> Log | None:
        """A new log: a few empty files, made at once. None where there are files of that name, or offsets in a
        checkpoint; `open_log` deals with these."""
        if any(name in file.offsets for file in self._offsets_files):
            return None
        if self._runtime.disk.exists(self._file(name.directory_name)):
            return None
        return self._load(name, topic_id, config, producer_id_expiration_ms, is_identified=False)

    async def open_log(
        self, name: TopicPartition, topic_id: Uuid, config: TopicConfig, producer_id_expiration_ms: int
    ) -> Log:
        """Opens the partition's log, or makes it; recovers it first where the last end was not a clean one."""
        offload = self._runtime.offload
        log = await offload(partial(self._load_existing, name, topic_id, config, producer_id_expiration_ms))
        if log is None:
            # What was written down about a log that is gone must not be taken for that of a new one of the same name.
            for file in self._offsets_files:
                await file.forget(name)
            log = await offload(
                partial(self._load, name, topic_id, config, producer_id_expiration_ms, is_identified=False)
            )
        return log

    def _load_existing(
        self, name: TopicPartition, topic_id: Uuid, config: TopicConfig, producer_id_expiration_ms: int
    ) -> Log | None:
        """None where there is nothing of this topic."""
        directory = self._file(name.directory_name)
        if not self._runtime.disk.exists(directory):
            return None
        known_id = read_topic_id(self._runtime.disk, directory)
        if self._is_stray(directory, known_id, topic_id):
            # As a rule, a topic of the same name that was deleted meanwhile.
            aside = self._set_aside(name.directory_name, STRAY_SUFFIX)
            self._runtime.disk.sync_directory(self.path)
            logger.warning("%s does not belong to topic %s: kept as %s", directory, uuid_text(topic_id), aside)
            return None
        return self._load(name, topic_id, config, producer_id_expiration_ms, is_identified=known_id is not None)

    def _load(
        self,
        name: TopicPartition,
        topic_id: Uuid,
        config: TopicConfig,
        producer_id_expiration_ms: int,
        *,
        is_identified: bool,
    ) -> Log:
        """On any thread."""
        directory = self._file(name.directory_name)
        self._runtime.disk.make_directories(directory)
        log = Log.open(
            self._runtime.disk,
            directory,
            config,
            self._runtime.clock.now_ms(),
            recovery_point=self._recovery_points.offsets.get(name, 0),
            log_start_offset=self._log_start_offsets.offsets.get(name, 0),
            clean_shutdown=self.was_clean,
            topic_id=topic_id,
            is_identified=is_identified,
            open_segments=self._open_segments,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        log.swap.cleaned_offset = self._cleaned_offsets.offsets.get(name, 0)
        tell_of_cut(log)
        return log

    def high_watermark(self, name: TopicPartition) -> Offset:
        """As it was last written down; 0 where it never was."""
        return self._high_watermarks.offsets.get(name, 0)

    def delete_log(self, name: TopicPartition) -> str:
        """Takes the log out of the way at once; its files go with `remove`, given the path that this returns.

        A crash before `sync_deletions` may bring it back, as a log that belongs to no topic of the cluster.
        """
        self._unsynced_deletions += 1
        return self._set_aside(name.directory_name, DELETE_SUFFIX)

    async def sync_deletions(self) -> None:
        """One sync for all of them."""
        while self._unsynced_deletions:
            self._unsynced_deletions = 0
            await self._syncs.run(self._runtime.offload, partial(self._runtime.disk.sync_directory, self.path))

    async def remove(self, path: str) -> None:
        await self._runtime.offload(partial(self._runtime.disk.remove_directory, path))

    def set_aside_strays(self, known: set[str]) -> None:
        """Partitions that the cluster no longer gives to this broker: kept, under a name that nobody opens."""
        disk = self._runtime.disk
        for entry in disk.list_directory(self.path):
            if entry not in known and not entry.endswith((STRAY_SUFFIX, DELETE_SUFFIX)) and self._holds_log(entry):
                self._unsynced_deletions += 1
                aside = self._set_aside(entry, STRAY_SUFFIX)
                logger.warning("%s belongs to no topic of this cluster: kept as %s", self._file(entry), aside)

    # Checkpoints

    async def write_checkpoints(self, source: Logs) -> None:
        """Recovery points only ever name what has been synced, so an old file is safe, only slower to recover from."""
        await self._write(self._recovery_points, source, lambda log: log.recovery_point)
        await self._write(self._log_start_offsets, source, lambda log: log.log_start_offset or None)

    async def write_high_watermarks(self, source: Logs) -> None:
        await self._write(self._high_watermarks, source, lambda log: log.high_watermark)

    async def write_cleaned_offsets(self, source: Logs) -> None:
        """Only after what they tell of is on the platter."""
        await self._write(self._cleaned_offsets, source, lambda log: log.swap.cleaned_offset or None)

    async def _write(self, file: OffsetsFile, source: Logs, offset_of: Callable[[Log], Offset | None]) -> None:
        """A log without an offset is left out."""

        def current() -> Offsets:
            offsets = {name: file.offsets[name] for name in source.unopened if name in file.offsets}
            for name, log in source.logs().items():
                offset = offset_of(log)
                if offset is not None:
                    offsets[name] = offset
            return offsets

        await file.write(current)

    def written_recovery_point(self, name: TopicPartition) -> Offset:
        """Where a recovery would begin, if there were one now."""
        return self._recovery_points.offsets.get(name, 0)

    def truncated(self, name: TopicPartition, log: Log) -> None:
        """What is written down must not tell of records that are gone: others will have their offsets."""
        self._recovery_points.lower(name, log.recovery_point)
        self._cleaned_offsets.lower(name, log.swap.cleaned_offset)

    # Details

    def _make(self) -> None:
        """A directory that a loss of power takes away takes with it all that was synced within."""
        disk = self._runtime.disk
        made: list[str] = []  # the parents of what is missing
        path = self.path
        while path not in ("", "/", ".") and not disk.exists(path):
            path = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
            made.append(path)
        disk.make_directories(self.path)
        for parent in made:
            disk.sync_directory(parent)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _holds_log(self, entry: str) -> bool:
        return self._runtime.disk.exists(self._file(f"{entry}/{checkpoint.PARTITION_METADATA_FILE_NAME}"))

    def _is_stray(self, directory: str, known_id: Uuid | None, topic_id: Uuid) -> bool:
        """Whether another topic lies there.

        The id is synced with the first records. So records without one were not synced, nobody counts on them, and they
        may belong to a topic of that name which is gone.
        """
        if known_id is not None:
            return known_id != topic_id
        disk = self._runtime.disk
        entries = disk.list_directory(directory)
        return any(entry.endswith(LOG_SUFFIX) and disk.size(f"{directory}/{entry}") > 0 for entry in entries)

    def _set_aside(self, directory_name: str, suffix: str) -> str:
        """Renames the directory to `<name>.<id><suffix>`, as Kafka does, within what a file system allows. Unsynced."""
        unique = self._runtime.random.randbytes(16).hex()
        aside = self._file(f"{directory_name[: NAME_BYTES_MAX - len(unique) - len(suffix) - 1]}.{unique}{suffix}")
        self._runtime.disk.rename(self._file(directory_name), aside)
        return aside

    def _remove_deleted(self) -> None:
        for entry in self._runtime.disk.list_directory(self.path):
            if entry.endswith(DELETE_SUFFIX):
                self._runtime.disk.remove_directory(self._file(entry))


def tell_of_cut(log: Log) -> None:
    """Whoever misses records looks here first."""
    if log.cut_bytes:
        unsound = f"{log.cut_bytes} bytes behind offset {log.log_end_offset}"
        logger.warning("%s: cut %s, which a crash had left unsound", log.directory, unsound)
