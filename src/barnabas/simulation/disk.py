"""A disk that forgets what was not synced, runs full and fails on demand.

It keeps two states: what a running process sees, and what is on the platter. `sync` moves a file's bytes from the one
to the other, `sync_directory` the names in a directory. `crash` gives the disk that is left afterwards: of the unsynced
writes of a file any prefix or subset, torn at any byte; of a map any pages; of the changes to a directory a prefix.
`kill` ends the process alone: what it had written is there for the next one, and is as unsynced as before.

Always holds: the same calls with the same `Random` leave the same disk. Once crashed, nothing works any more on the
old one. Does not know: time, unless `now_ms` is given.
"""

import errno
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import NamedTuple

from barnabas.runtime.interfaces import Buffer
from barnabas.simulation.file_names import FileNames, NameChange, parent_of, parents

PAGE_BYTES = 512  # what a crash keeps or loses of a map as one; smaller than real pages, to find more


COLD_EVERY = 5  # questions whether something is cached, one is answered with no


class DiskFault(OSError):
    """A failure that somebody asked for, in contrast to one that a bug has brought about."""


class Survival(Enum):
    """What a crash leaves of that which was not synced."""

    NONE = "none"
    ALL = "all"
    SOME = "some"


class Change(NamedTuple):
    """One unsynced change of a file: bytes at a position, or a new size."""

    position: int
    data: bytes | None  # None: cut or grown to `position`


class Node:
    """One file, whatever its names are."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)  # as a process sees it
        self.durable = bytearray(content)
        self.pending: list[Change] = []  # in order; what has to happen to `durable` to make it `content`
        self.mapped = False  # changes of a map are not seen one by one: pages are compared instead
        self.modified_ms = 0

    def change(self, change: Change) -> None:
        apply(self.content, change)
        self.pending.append(change)

    def sync(self) -> None:
        if self.mapped:
            self.durable = bytearray(self.content)
        else:
            for change in self.pending:
                apply(self.durable, change)
        self.pending.clear()

    def unmap(self) -> None:
        """Whoever had it mapped is gone, and may still hold a view: those bytes are nobody's now."""
        if self.mapped:
            self.content = bytearray(self.content)

    def after_crash(self, random: Random, survival: Survival) -> bytes:
        if survival is Survival.NONE:
            return bytes(self.durable)
        if survival is Survival.ALL:
            return bytes(self.content)
        if self.mapped:
            return self._some_pages(random)
        left = bytearray(self.durable)
        for change in self._some_changes(random):
            apply(left, change)
        return bytes(left)

    def _some_changes(self, random: Random) -> list[Change]:
        if random.random() < 0.5:  # in order, the last one torn
            kept = self.pending[: random.randint(0, len(self.pending))]
            return [*kept[:-1], torn(kept[-1], random)] if kept else []
        return [
            torn(change, random) if random.random() < 0.2 else change
            for change in self.pending
            if random.random() < 0.5
        ]

    def _some_pages(self, random: Random) -> bytes:
        size = random.choice((len(self.durable), len(self.content)))
        left = bytearray(size)
        for start in range(0, size, PAGE_BYTES):
            source = random.choice((self.durable, self.content))
            page = source[start : min(start + PAGE_BYTES, size)]
            left[start : start + len(page)] = page
        return bytes(left)


def apply(content: bytearray, change: Change) -> None:
    position, data = change
    if data is None:
        del content[position:]
        content.extend(bytes(position - len(content)))
    else:
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


def torn(change: Change, random: Random) -> Change:
    if change.data is None:
        return change
    return Change(change.position, change.data[: random.randint(0, len(change.data))])


class SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", path: str, node: Node) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._is_open = True

    def _begin(self, kind: str) -> Node:
        self._disk.begin(kind)
        if not self._is_open:
            raise OSError(errno.EBADF, "file is closed", self.path)
        return self._node

    def size(self) -> int:
        return len(self._begin("look").content)

    def read(self, position: int, size: int) -> bytes:
        node = self._begin("read")
        self._disk.may_fail("read")
        return bytes(node.content[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        """Now and then it is not, so that answers wait for the disk."""
        self._disk.cache_questions += 1
        return self._disk.cache_questions % COLD_EVERY != 0

    def write(self, position: int, data: Buffer) -> None:
        node = self._begin("write")
        self._disk.may_fail("write")
        self._disk.write(self.path, node, position, bytes(data))

    def truncate(self, size: int) -> None:
        node = self._begin("truncate")
        self._disk.may_fail("truncate")
        self._disk.resize(self.path, node, size)

    def sync(self) -> None:
        node = self._begin("sync")
        self._disk.may_fail("sync")
        node.sync()
        self._disk.done("sync", self.path)

    def close(self) -> None:
        self._is_open = False


class SimulatedMappedFile:
    def __init__(self, disk: "SimulatedDisk", path: str, node: Node, size: int) -> None:
        self._path = path
        self._disk = disk
        self._node = node
        node.mapped = True
        if size > len(node.content):
            node.content.extend(bytes(size - len(node.content)))
        self._view = memoryview(node.content)

    @property
    def view(self) -> memoryview:
        return self._view

    def reserve(self, position: int, size: int) -> None:
        self._disk.begin("write")
        self._disk.may_fail("write")
        self._disk.take_space(size)
        self._view[position : position + size] = bytes(size)
        self._disk.done("write", self._path)

    def resize(self, size: int) -> None:
        self._disk.begin("truncate")
        self.close()
        self._disk.may_fail("truncate")
        apply(self._node.content, Change(size, None))
        self._view = memoryview(self._node.content)
        self._disk.done("truncate", self._path)

    def sync(self) -> None:
        self._disk.begin("sync")
        self._disk.may_fail("sync")
        self._node.sync()
        self._disk.done("sync", self._path)

    def close(self) -> None:
        self._view.release()
        self._view = memoryview(b"")


class SimulatedLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class SimulatedDisk:
    def __init__(self, *, space_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.operations = 0  # changes and syncs so far
        self.cache_questions = 0
        self.before_operation: Callable[[str], None] | None = None  # told the kind of each; others may run meanwhile
        self.on_operation: Callable[[str], None] | None = None  # told the kind of each change, after it happened
        self.on_change: Callable[[str, str], None] | None = None  # likewise, with the path
        self._names: FileNames[Node] = FileNames()  # as a process sees them
        self._durable_names: FileNames[Node] = FileNames()
        self._name_changes: dict[str, list[NameChange[Node]]] = {}  # not synced, by directory, in order
        self._locked: set[str] = set()
        self._space_bytes = space_bytes
        self._free_bytes = space_bytes
        self._failures: dict[str, list[tuple[int, int]]] = {}  # kind to (calls until then, errno)
        self._now_ms = now_ms
        self._is_dead = False
        self._is_writing_aside = False  # some thread is in `write_atomically`

    # Faults

    def fail(self, kind: str, *, nth: int = 1, error: int = errno.EIO) -> None:
        """The nth call from now on of this kind fails: read, write, truncate, sync, create, rename, remove."""
        self._failures.setdefault(kind, []).append((nth, error))

    def heal(self) -> None:
        """Nothing fails any more."""
        self._failures.clear()

    def set_free_bytes(self, free_bytes: int) -> None:
        """Then the disk is full; a write that does not fit is done as far as it does."""
        self._free_bytes = free_bytes

    def kill(self) -> "SimulatedDisk":
        """The disk as the next process finds it after the end of this one, with the machine still running."""
        left = SimulatedDisk(space_bytes=self._space_bytes, now_ms=self._now_ms)
        left._free_bytes = self._free_bytes
        left._failures = self._failures
        left._names = self._names
        left._durable_names = self._durable_names
        left._name_changes = self._name_changes
        self._is_dead = True
        self._names = self._names.copy()
        for names in (left._names, left._durable_names):
            for node in names.files():
                if node is not None:
                    node.unmap()
        return left

    def crash(self, random: Random, survival: Survival = Survival.SOME) -> "SimulatedDisk":
        """The disk as the next process finds it; this one answers nothing any more."""
        left = self.image(random, survival)
        self._is_dead = True
        return left

    def image(self, random: Random, survival: Survival = Survival.SOME) -> "SimulatedDisk":
        """What a crash at this moment would leave."""
        left = SimulatedDisk(space_bytes=self._space_bytes, now_ms=self._now_ms)
        names = (self._names if survival is Survival.ALL else self._durable_names).copy()
        if survival is Survival.SOME:
            for directory in sorted(self._name_changes):
                changes = self._name_changes[directory]
                for change in changes[: random.randint(0, len(changes))]:
                    names.apply(change)
        fresh: dict[Node, Node] = {}
        for path in names.paths():
            node = names[path]
            if not all(map(names.is_directory, parents(path))):
                continue  # the directory itself did not survive
            if node is None:
                left._names[path] = left._durable_names[path] = None
                continue
            if node not in fresh:
                fresh[node] = Node(node.after_crash(random, survival))
            left._names[path] = left._durable_names[path] = fresh[node]
        return left

    def unsynced_writes(self, path: str) -> list[bytes] | None:
        """What a loss of power may undo in the file; None where it would leave nothing in its place.

        Another file may have had this name before, or this file another name: that would be there again.
        """
        node = self._names.get(path)
        directory, durable = parent_of(path), self._durable_names
        others = (durable.get(f"{directory}/{name}") for name in durable.names_in(directory))
        if durable.get(path) is None and (node is None or not any(each is node for each in others)):
            return None
        return [change.data for change in node.pending if change.data] if node is not None else []

    # What files and maps call

    def begin(self, kind: str) -> None:
        """Of each operation, before it looks at anything."""
        if self.before_operation is not None:
            self.before_operation(kind)
        if self._is_dead:
            raise OSError(errno.EIO, "the machine has crashed")

    def may_fail(self, kind: str) -> None:
        waiting = self._failures.get(kind)
        if waiting:
            left, error = waiting[0]
            if left > 1:
                waiting[0] = (left - 1, error)
            else:
                waiting.pop(0)
                raise DiskFault(error, f"simulated failure of {kind}")

    def done(self, kind: str, path: str) -> None:
        self.operations += 1
        if self.on_change is not None:
            self.on_change(kind, path)
        if self.on_operation is not None:
            self.on_operation(kind)

    def take_space(self, size: int) -> None:
        if size > self._free_bytes:
            raise DiskFault(errno.ENOSPC, "no space left on the simulated disk")
        self._free_bytes -= size

    def write(self, path: str, node: Node, position: int, data: bytes) -> None:
        growth = max(0, position + len(data) - len(node.content))
        lacking = growth - self._free_bytes
        if lacking > 0:
            data = data[: len(data) - lacking]
            growth -= lacking
        self._free_bytes -= growth
        node.change(Change(position, data))
        node.modified_ms = self._now_ms()
        self.done("write", path)
        if lacking > 0:
            raise DiskFault(errno.ENOSPC, "no space left on the simulated disk")

    def resize(self, path: str, node: Node, size: int) -> None:
        self._free_bytes += max(0, len(node.content) - size)
        node.change(Change(size, None))
        node.modified_ms = self._now_ms()
        self.done("truncate", path)

    # Disk

    def _node(self, path: str) -> Node:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        node = self._names[path]
        if node is None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _node_or_new(self, path: str) -> Node:
        if path in self._names:
            return self._node(path)
        self._need_directory(parent_of(path))
        self.may_fail("create")
        node = Node()
        node.modified_ms = self._now_ms()
        self._change_name(NameChange(path, node, None), "create")
        return node

    def _need_directory(self, path: str) -> None:
        if not self._names.is_directory(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def _change_name(self, change: NameChange[Node], kind: str) -> None:
        if change.old_path is not None and self._names.is_directory(change.old_path):
            self._move_changes(change.old_path, change.path)
        self._names.apply(change)
        path = change.path if change.path is not None else change.old_path or ""
        self._name_changes.setdefault(parent_of(path), []).append(change)
        self.done(kind, path)

    def _move_changes(self, old_path: str, path: str | None) -> None:
        """What is not synced in a directory stays with it wherever it goes; another may come in its place."""
        for directory in [each for each in self._name_changes if each == old_path or each.startswith(old_path + "/")]:
            changes = self._name_changes.pop(directory)
            if path is not None:
                self._name_changes[path + directory[len(old_path) :]] = [
                    change.moved(old_path, path) for change in changes
                ]

    def open(self, path: str, *, create: bool = True) -> SimulatedFile:
        self.begin("open")
        return SimulatedFile(self, path, self._node_or_new(path) if create else self._node(path))

    def map(self, path: str, size: int) -> SimulatedMappedFile:
        self.begin("open")
        return SimulatedMappedFile(self, path, self._node_or_new(path), size)

    def exists(self, path: str) -> bool:
        self.begin("look")
        return path in self._names

    def size(self, path: str) -> int:
        self.begin("look")
        return len(self._node(path).content)

    def modified_ms(self, path: str) -> int:
        self.begin("look")
        return self._node(path).modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.begin("look")
        self._need_directory(path)
        return self._names.names_in(path)

    def make_directories(self, path: str) -> None:
        self.begin("create")
        if path not in self._names:
            self.make_directories(parent_of(path))
            self._change_name(NameChange(path, None, None), "create")
        self._need_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.begin("rename")
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._need_directory(parent_of(target))
        self.may_fail("rename")
        self._change_name(NameChange(target, self._names[source], source), "rename")

    def remove(self, path: str) -> None:
        self.begin("remove")
        node = self._node(path)
        self.may_fail("remove")
        if not node.mapped:
            self._free_bytes += len(node.content)
        self._change_name(NameChange(None, None, path), "remove")

    def remove_directory(self, path: str) -> None:
        self.begin("remove")
        self._need_directory(path)
        self.may_fail("remove")
        for node in self._names.files_below(path):
            if not node.mapped:
                self._free_bytes += len(node.content)
        self._change_name(NameChange(None, None, path), "remove")

    def sync_file(self, path: str) -> None:
        self.begin("sync")
        node = self._node(path)
        self.may_fail("sync")
        node.sync()
        self.done("sync", path)

    def sync_directory(self, path: str) -> None:
        self.begin("sync")
        path = "" if path == "/" else path
        self._need_directory(path)
        self.may_fail("sync")
        for change in self._name_changes.pop(path, ()):
            self._durable_names.apply(change)
        self.done("sync", path)

    def read_bytes(self, path: str) -> bytes:
        self.begin("read")
        node = self._node(path)
        self.may_fail("read")
        return bytes(node.content)

    def write_atomically(self, path: str, data: Buffer) -> None:
        """As on a real machine, by one thread at a time as far as the rename."""
        while self._is_writing_aside:
            self.begin("wait")
        self._is_writing_aside = True
        try:
            aside = path + ".tmp"
            file = self.open(aside)
            file.truncate(0)
            file.write(0, data)
            file.sync()
            file.close()
            self.rename(aside, path)
        finally:
            self._is_writing_aside = False
        self.sync_directory(parent_of(path))

    def lock(self, path: str) -> SimulatedLock:
        self.begin("create")
        self._node_or_new(path)
        if path in self._locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "another holds the lock", path)
        return SimulatedLock(self._locked, path)

    def space_bytes(self, path: str) -> tuple[int, int]:
        return self._space_bytes, self._free_bytes
