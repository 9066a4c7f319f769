"""CRC32C, the checksum of record batches and of producer snapshots.

Owns the choice of implementation: the C extension of the `crc32c` wheel, loaded by itself. The wheel's package module
also imports argparse and importlib.metadata, which costs a broker 4 MB and 20 ms that it never uses.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import cast

Buffer = bytes | bytearray | memoryview
Checksum = Callable[[Buffer], int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        extension = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return cast(Checksum, module.crc32c)
    import crc32c as whole_package  # another layout of the wheel: slower to start, same function

    return cast(Checksum, whole_package.crc32c)


crc32c: Checksum = _load()
