"""A disk in memory: `barnabas up --memory`, and the ground of tests.

Always holds: a file grows by whole chunks that never move, so that an append copies only what it adds, and a reader
of older bytes is never disturbed. A removed file lives on while somebody holds it open, as on a real disk.
Does not know: durability. `sync` does nothing here; `simulation.disk` is the one that forgets.
"""

import errno
import mmap
from collections.abc import Callable

from barnabas.runtime.interfaces import Buffer

CHUNK_BYTES = 32 << 10  # small enough that thousands of small files cost little, large enough to read in few steps
SPACE_BYTES = 1 << 40  # what an endless disk answers when asked for its size


class MemoryContent:
    """The bytes of one file: chunks, or one contiguous map while and after somebody maps it."""

    __slots__ = ("chunks", "mapped", "modified_ms", "size")

    def __init__(self) -> None:
        self.chunks: list[bytearray] = []  # each CHUNK_BYTES long; empty where the file is mapped
        self.mapped: mmap.mmap | None = None  # at least `size` long
        self.size = 0
        self.modified_ms = 0

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        if end <= position:
            return b""
        if self.mapped is not None:
            return self.mapped[position:end]
        index, start = divmod(position, CHUNK_BYTES)
        if start + (end - position) <= CHUNK_BYTES:
            return bytes(memoryview(self.chunks[index])[start : start + end - position])
        parts = []
        while position < end:
            index, start = divmod(position, CHUNK_BYTES)
            step = min(CHUNK_BYTES - start, end - position)
            parts.append(memoryview(self.chunks[index])[start : start + step])
            position += step
        return b"".join(parts)

    def write(self, position: int, data: Buffer) -> None:
        view = memoryview(data)
        end = position + len(view)
        if self.mapped is not None:
            self.resize(max(end, self.size))
            self.mapped[position:end] = view
            return
        while len(self.chunks) * CHUNK_BYTES < end:
            self.chunks.append(bytearray(CHUNK_BYTES))
        done = 0
        while done < len(view):
            index, start = divmod(position + done, CHUNK_BYTES)
            step = min(CHUNK_BYTES - start, len(view) - done)
            self.chunks[index][start : start + step] = view[done : done + step]
            done += step
        self.size = max(self.size, end)

    def resize(self, size: int) -> None:
        """Grows with zeros or cuts."""
        if self.mapped is not None:
            if size != self.size:
                self._remap(self.read(0, min(size, self.size)), size)
            return
        if size < self.size:
            # Zero what is cut, so that a later growth shows zeros. Chunks are replaced, never shortened in place.
            del self.chunks[-(-size // CHUNK_BYTES) :]
            if size % CHUNK_BYTES:
                kept = bytes(self.chunks[-1][: size % CHUNK_BYTES])
                self.chunks[-1] = bytearray(kept.ljust(CHUNK_BYTES, b"\0"))
        else:
            while len(self.chunks) * CHUNK_BYTES < size:
                self.chunks.append(bytearray(CHUNK_BYTES))
        self.size = size

    def map(self, size_min: int) -> None:
        size = max(size_min, self.size)
        if self.mapped is None or size != self.size:
            self._remap(self.read(0, self.size), size)

    def _remap(self, kept: bytes, size: int) -> None:
        # Anonymous and private: pages take memory only once touched, as a sparse file takes disk.
        fresh = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        fresh[: len(kept)] = kept
        self.chunks = []
        self.mapped = fresh
        self.size = size


class MemoryFile:
    __slots__ = ("_content", "_disk", "path")

    def __init__(self, disk: "MemoryDisk", path: str, content: MemoryContent) -> None:
        self.path = path
        self._disk = disk
        self._content: MemoryContent | None = content

    def _open_content(self) -> MemoryContent:
        if self._content is None:
            raise OSError(errno.EBADF, "file is closed", self.path)
        return self._content

    def size(self) -> int:
        return self._open_content().size

    def read(self, position: int, size: int) -> bytes:
        return self._open_content().read(position, size)

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def write(self, position: int, data: Buffer) -> None:
        content = self._open_content()
        content.write(position, data)
        content.modified_ms = self._disk.now_ms()

    def truncate(self, size: int) -> None:
        content = self._open_content()
        content.resize(size)
        content.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        self._open_content()

    def close(self) -> None:
        self._content = None


class MemoryMappedFile:
    __slots__ = ("_content", "_view")

    def __init__(self, content: MemoryContent, size: int) -> None:
        self._content = content
        self._view = memoryview(b"")
        self._open(size)

    @property
    def view(self) -> memoryview:
        return self._view

    def _open(self, size: int) -> None:
        self._content.map(size)
        assert self._content.mapped is not None
        self._view = memoryview(self._content.mapped)[: self._content.size]

    def reserve(self, position: int, size: int) -> None:
        self._view[position : position + size] = bytes(size)

    def resize(self, size: int) -> None:
        self.close()
        self._content.resize(size)
        self._open(size)

    def sync(self) -> None:
        """Memory has no platter."""

    def close(self) -> None:
        self._view.release()
        self._view = memoryview(b"")


class MemoryLock:
    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rstrip("/").rpartition("/")
    return directory, name


class MemoryDisk:
    """`now_ms` gives files the time of their last change; without it they were all changed in 1970."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self._directories: dict[str, dict[str, MemoryContent | None]] = {"": {}}  # None stands for a directory
        self._locked: set[str] = set()

    def _directory(self, path: str) -> dict[str, MemoryContent | None]:
        try:
            return self._directories[path.rstrip("/")]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path) from None

    def _content(self, path: str) -> MemoryContent:
        directory, name = _split(path)
        entries = self._directory(directory)
        if name not in entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        content = entries[name]
        if content is None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return content

    def _content_or_new(self, path: str) -> MemoryContent:
        directory, name = _split(path)
        entries = self._directory(directory)
        if name not in entries:
            created = entries[name] = MemoryContent()
            created.modified_ms = self.now_ms()
            return created
        return self._content(path)

    def open(self, path: str, *, create: bool = True) -> MemoryFile:
        return MemoryFile(self, path, self._content_or_new(path) if create else self._content(path))

    def map(self, path: str, size: int) -> MemoryMappedFile:
        return MemoryMappedFile(self._content_or_new(path), size)

    def exists(self, path: str) -> bool:
        directory, name = _split(path)
        return path.rstrip("/") in self._directories or name in self._directories.get(directory, {})

    def size(self, path: str) -> int:
        return self._content(path).size

    def modified_ms(self, path: str) -> int:
        return self._content(path).modified_ms

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path))

    def make_directories(self, path: str) -> None:
        path = path.rstrip("/")
        if path in self._directories:
            return
        parent, name = _split(path)
        self.make_directories(parent)
        entries = self._directories[parent]
        if name in entries:
            raise FileExistsError(errno.EEXIST, "a file has this name", path)
        entries[name] = None
        self._directories[path] = {}

    def rename(self, source: str, target: str) -> None:
        source_directory, source_name = _split(source)
        target_directory, target_name = _split(target)
        entries = self._directory(source_directory)
        if source_name not in entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        target_entries = self._directory(target_directory)
        moved = entries.pop(source_name)
        target_entries[target_name] = moved
        if moved is None:
            for path in [path for path in self._directories if path == source or path.startswith(source + "/")]:
                self._directories[target + path[len(source) :]] = self._directories.pop(path)

    def remove(self, path: str) -> None:
        self._content(path)
        directory, name = _split(path)
        del self._directories[directory][name]

    def remove_directory(self, path: str) -> None:
        self._directory(path)
        directory, name = _split(path)
        del self._directories[directory][name]
        for inner in [inner for inner in self._directories if inner == path or inner.startswith(path + "/")]:
            del self._directories[inner]

    def sync_file(self, path: str) -> None:
        self._content(path)

    def sync_directory(self, path: str) -> None:
        self._directory(path)

    def read_bytes(self, path: str) -> bytes:
        content = self._content(path)
        return content.read(0, content.size)

    def write_atomically(self, path: str, data: Buffer) -> None:
        fresh = MemoryContent()
        fresh.write(0, data)
        fresh.modified_ms = self.now_ms()
        directory, name = _split(path)
        self._directory(directory)[name] = fresh

    def lock(self, path: str) -> MemoryLock:
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "another holds the lock", path)
        self._content_or_new(path)
        return MemoryLock(self._locked, path)

    def forget_locks(self) -> None:
        """As where the process that held them has died."""
        self._locked.clear()

    def space_bytes(self, path: str) -> tuple[int, int]:
        return SPACE_BYTES, SPACE_BYTES
