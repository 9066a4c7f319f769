"""The names on a simulated disk: which file each path stands for, and what lies below each directory.

Always holds: a directory and all below it move and go as one. Listings are in order.
Does not know: what is in a file, whether a directory above a path exists (a crash may have lost it).
"""

from collections.abc import Iterator, ValuesView
from typing import Generic, NamedTuple, TypeVar

F = TypeVar("F")


class NameChange(NamedTuple, Generic[F]):
    """One change of a name. `file` is what `path` stands for afterwards; `old_path` is gone then."""

    path: str | None
    file: F | None  # None: a directory
    old_path: str | None

    def moved(self, old_directory: str, directory: str) -> "NameChange[F]":
        """The same, after the directory above it has got another name."""
        below = old_directory + "/"
        path, old_path = (
            directory + each[len(old_directory) :] if each is not None and each.startswith(below) else each
            for each in (self.path, self.old_path)
        )
        return NameChange(path, self.file, old_path)


class FileNames(Generic[F]):
    def __init__(self) -> None:
        self._files: dict[str, F | None] = {"": None}  # None is a directory
        self._below: dict[str, dict[str, None]] = {}  # directory to the paths right below it

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __getitem__(self, path: str) -> F | None:
        return self._files[path]

    def __setitem__(self, path: str, file: F | None) -> None:
        if path and path not in self._files:
            self._below.setdefault(parent_of(path), {})[path] = None
        self._files[path] = file

    def get(self, path: str) -> F | None:
        """None for a directory too."""
        return self._files.get(path)

    def is_directory(self, path: str) -> bool:
        return path in self._files and self._files[path] is None

    def paths(self) -> list[str]:
        return sorted(self._files)

    def files(self) -> ValuesView[F | None]:
        return self._files.values()

    def names_in(self, directory: str) -> list[str]:
        return sorted(path[len(directory) + 1 :] for path in self._below.get(directory, ()))

    def files_below(self, directory: str) -> Iterator[F]:
        for path in self._paths_below(directory):
            file = self._files[path]
            if file is not None:
                yield file

    def copy(self) -> "FileNames[F]":
        made: FileNames[F] = FileNames()
        made._files = dict(self._files)
        made._below = {directory: dict(paths) for directory, paths in self._below.items()}
        return made

    def apply(self, change: NameChange[F]) -> None:
        """Also to all that lies below."""
        path, file, old_path = change
        if old_path is not None and old_path in self._files:
            for name in self._paths_below(old_path):
                below = self._remove(name)
                if path is not None:
                    self[path + name[len(old_path) :]] = below
            self._remove(old_path)
        if path is not None:
            self[path] = file

    def _remove(self, path: str) -> F | None:
        directory = parent_of(path)
        self._below[directory].pop(path)
        if not self._below[directory]:
            del self._below[directory]
        return self._files.pop(path)

    def _paths_below(self, directory: str) -> list[str]:
        found = list(self._below.get(directory, ()))
        for path in found:  # and what is found on the way
            found += self._below.get(path, ())
        return found


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def parents(path: str) -> list[str]:
    found = []
    while path:
        path = parent_of(path)
        found.append(path)
    return found
