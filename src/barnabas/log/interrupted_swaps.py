"""What a crash left of compaction is finished or undone, before the segments of a log are opened.

By the files of one base offset:
    any `.cleaned`                 not finished: it goes, `.swap` files included, and the old segments count
    `.log.swap`, no `.cleaned`     finished: the segments that it covers go, then it takes its name
    other `.swap` files alone      the log file has its name already: they get theirs

Always holds: a crash in the middle of this leaves one of these states again. Kafka reads them in the same way.
"""

from collections.abc import Sequence

from barnabas.log.scan import headers_from
from barnabas.log.segment import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset


def finish_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Gives the names that are there afterwards."""
    aside = sorted({name.partition(".")[0] for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))})
    for stem in aside:
        own = [name for name in names if name.startswith(f"{stem}.")]
        cleaned = [name for name in own if name.endswith(CLEANED_SUFFIX)]
        swaps = [name for name in own if name.endswith(SWAP_SUFFIX)]
        if cleaned:
            for name in (*swaps, *cleaned):
                disk.remove(f"{directory}/{name}")
        else:
            _finish(disk, directory, stem, swaps, names)
    if not aside:
        return names
    disk.sync_directory(directory)
    return disk.list_directory(directory)


def _finish(disk: Disk, directory: str, stem: str, swaps: Sequence[str], names: Sequence[str]) -> None:
    log_swap = f"{stem}{LOG_SUFFIX}{SWAP_SUFFIX}"
    if log_swap in swaps:
        for name in reversed(_covered(disk, f"{directory}/{log_swap}", int(stem), names)):
            disk.remove(f"{directory}/{name}")
        disk.rename(f"{directory}/{log_swap}", f"{directory}/{stem}{LOG_SUFFIX}")
    for name in swaps:
        if name != log_swap:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")


def _covered(disk: Disk, path: str, base_offset: Offset, names: Sequence[str]) -> list[str]:
    """Files of the segments that the swapped one stands for; the log file of its own name is renamed over."""
    end_offset = base_offset
    file = disk.open(path, create=False)
    for _, header in headers_from(file, 0, file.size()):
        end_offset = header.next_offset
    file.close()
    covered = []
    for name in names:
        stem, _, suffix = name.partition(".")
        if "." + suffix in SEGMENT_SUFFIXES and stem.isdecimal():
            offset = int(stem)
            if base_offset < offset < end_offset or (offset == base_offset and "." + suffix != LOG_SUFFIX):
                covered.append(name)
    return covered
