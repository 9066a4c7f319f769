"""The Python processes that Spark runs tasks in, and keeps for the next ones."""

import ctypes
import gc
import os

# Of glibc's malloc, and as high as it would raise them by itself in time.
M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES = -1, 64 << 20
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 32 << 20

_is_settled = False


def settle() -> None:
    """Prepares the process for many tasks. Only its first call does anything."""
    global _is_settled
    if not _is_settled:
        _is_settled = True
        _spare_what_is_loaded()
        _keep_memory()


def _spare_what_is_loaded() -> None:
    """Spark has garbage collected after every task, which would go through all modules each time, for some 50 ms."""
    gc.freeze()


def _keep_memory() -> None:
    """Buffers of some megabytes would be given back after each task, and every page of them asked for anew: a fifth of
    what a scan costs in Python."""
    if os.name == "posix" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
