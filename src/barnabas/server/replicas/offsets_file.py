"""One file of a log directory that holds an offset for each partition, written off the event loop.

Always holds: one write at a time. `offsets` is what the file holds. A write that was prepared before a `lower` is
discarded and prepared anew, so an old value never replaces a lower one: only the rename, which takes no time, is done
on the event loop. A write whose caller is cancelled goes on, and the next one waits for it.
Does not know: what the offsets mean.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from barnabas.log import checkpoint
from barnabas.log.checkpoint import CheckpointError
from barnabas.runtime.exclusive import ExclusiveCalls
from barnabas.runtime.interfaces import Runtime
from barnabas.types import Offset, TopicPartition

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, Offset]

PREPARED_SUFFIX = ".new"  # not `.tmp`, which `write_atomically` uses


class OffsetsFile:
    def __init__(self, runtime: Runtime, path: str) -> None:
        self.offsets: Offsets = {}
        self._runtime = runtime
        self._path = path
        self._lowered = 0  # how often
        self._lock = asyncio.Lock()
        self._calls = ExclusiveCalls()

    def read(self) -> None:
        """A file that cannot be read is logged and taken for an empty one."""
        disk = self._runtime.disk
        if disk.exists(self._path):
            try:
                self.offsets = checkpoint.decode_offsets(disk.read_bytes(self._path), self._path)
            except CheckpointError as error:
                logger.error("what was written down cannot be read and is done without: %s", error)

    async def write(self, current: Callable[[], Offsets]) -> None:
        """Makes the file hold what `current` gives. It is asked again where an offset was lowered meanwhile."""
        disk = self._runtime.disk
        async with self._lock:
            lowered = -1
            while lowered != self._lowered:
                lowered, offsets = self._lowered, current()
                if offsets == self.offsets:
                    return
                await self._offload(partial(self._prepare, offsets))
            disk.rename(self._path + PREPARED_SUFFIX, self._path)
            self.offsets = offsets
            await self._offload(partial(disk.sync_directory, self._path.rpartition("/")[0]))

    async def forget(self, name: TopicPartition) -> None:
        await self.write(lambda: {each: offset for each, offset in self.offsets.items() if each != name})

    def lower(self, name: TopicPartition, offset: Offset) -> None:
        """At once, and synced: others will have the offsets above it."""
        self._lowered += 1
        if self.offsets.get(name, 0) > offset:
            self.offsets = {**self.offsets, name: offset}
            self._runtime.disk.write_atomically(self._path, checkpoint.encode_offsets(self.offsets))

    async def close(self) -> None:
        """Returns once no thread uses the file."""
        async with self._lock:
            await self._calls.ended()

    def _prepare(self, offsets: Offsets) -> None:
        """On another thread."""
        file = self._runtime.disk.open(self._path + PREPARED_SUFFIX)
        try:
            file.truncate(0)
            file.write(0, checkpoint.encode_offsets(offsets))
            file.sync()
        finally:
            file.close()

    async def _offload(self, work: Callable[[], None]) -> None:
        await self._calls.run(self._runtime.offload, work)
