"""The real disk: files, maps, directories and locks of the operating system.

Always holds: a read or write is positioned, so that readers and the writer of one file never disturb each other;
a file closes itself with its last reference, so that a reader in flight keeps a removed file alive.
Does not know: what is in the files.
"""

import fcntl
import mmap
import os
import shutil
import sys
import threading
from collections.abc import Callable
from typing import Any

from barnabas.runtime.interfaces import Buffer

FILE_MODE = 0o644

# Data and size reach the platter; access times may wait. Not every system has it.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

# From 3.13 a map need not keep a descriptor of its own, which halves what thousands of partitions hold open.
_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


# Linux: a read that would have to wait for the platter fails instead.
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
_ONE_BYTE = (bytearray(1),)
SMALL_BYTES = 16 << 10  # the system reads at least so much at a time, so the end tells of the beginning

# A sync on another thread may write the same file: what one has put aside must not be renamed by the other.
_ASIDE = threading.Lock()


class SystemFile:
    """One open file, by its descriptor."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor  # -1 once closed: every later call fails with EBADF

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        # The kernel moves at most 2 GiB at once, and a signal may cut a read short.
        parts = [data]
        missing = size - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + size - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def is_cached(self, position: int, size: int) -> bool:
        if not _NO_WAIT:
            return True
        try:
            # The last byte first: what was read from the front is more likely to be there.
            os.preadv(self._descriptor, _ONE_BYTE, position + size - 1, _NO_WAIT)
            if size > SMALL_BYTES:
                os.preadv(self._descriptor, _ONE_BYTE, position, _NO_WAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # this file system cannot tell; a read will tell what is wrong
        return True

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written == len(data):
            return
        rest = memoryview(data)
        while written < len(rest):
            written += os.pwrite(self._descriptor, rest[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        _sync_data(self._descriptor)

    def close(self, _close: Callable[[int], None] = os.close) -> None:
        # Bound as a default, because modules may be gone when the interpreter ends.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _close(descriptor)

    def __del__(self) -> None:
        self.close()


class SystemMappedFile:
    """A shared map of a whole file. An empty file cannot be mapped, and has an empty view."""

    __slots__ = ("_map", "_path", "_view")

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")
        self._open(size)

    @property
    def view(self) -> memoryview:
        return self._view

    def _open(self, size_min: int) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size < size_min:
                os.ftruncate(descriptor, size_min)
                size = size_min
            if size:
                self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED, **_MAP_OPTIONS)
                self._view = memoryview(self._map)
        finally:
            os.close(descriptor)

    def reserve(self, position: int, size: int) -> None:
        # Touching a page that has no room on the disk kills the process; writing zeros asks for the room politely.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            written = 0
            while written < size:
                written += os.pwrite(descriptor, bytes(size - written), position + written)
        finally:
            os.close(descriptor)

    def resize(self, size: int) -> None:
        self.close()
        os.truncate(self._path, size)
        self._open(size)

    def sync(self) -> None:
        # Not mmap.flush: it would hold the interpreter's lock until the platter answers. fsync covers mapped pages.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _sync_data(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self._view.release()
        self._view = memoryview(b"")
        if self._map is not None:
            self._map.close()
            self._map = None


class SystemLock:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SystemDisk:
    """Paths go to the operating system as they are; relative ones start at the working directory."""

    def open(self, path: str, *, create: bool = True) -> SystemFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, FILE_MODE))

    def map(self, path: str, size: int) -> SystemMappedFile:
        return SystemMappedFile(path, size)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_file(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _sync_data(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_bytes(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        file = SystemFile(path, descriptor)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def write_atomically(self, path: str, data: Buffer) -> None:
        aside = path + ".tmp"
        with _ASIDE:
            file = self.open(aside)
            try:
                file.truncate(0)
                file.write(0, data)
                file.sync()
            finally:
                file.close()
            os.replace(aside, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> SystemLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return SystemLock(descriptor)

    def space_bytes(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail
