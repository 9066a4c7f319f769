"""The other side of `background`: a process that does one piece of work on this machine's disk and tells by its output.

    input    a pickled (work, argument, bytes per second); its end is the end of whoever asked
    output   (length u32, pickle)*: ("item", item) for each, then ("done", None) or ("error", exception)

Always holds: it dies with the broker that started it, lest it write beside the broker that comes next. It gives way to
everything else that wants the processor.
"""

import os
import pickle
import select
import signal
import sys
import time
from struct import Struct
from typing import BinaryIO

from barnabas.runtime.slices import Throttle
from barnabas.runtime.system.disk import SystemDisk

LENGTH = Struct(">I")
NICENESS = 10
_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = os.getppid()
    die_with_parent()
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group; the broker decides
    source = sys.stdin.buffer
    length = source.read(LENGTH.size)
    if len(length) < LENGTH.size or os.getppid() != parent:
        return
    output = sys.stdout.buffer
    try:
        work, argument, bytes_per_second = pickle.loads(source.read(LENGTH.unpack(length)[0]))
        throttle = Throttle(bytes_per_second, time.monotonic() * 1000)
        for step in work(SystemDisk(), argument):
            if isinstance(step, int):
                pause_ms = throttle.pause_ms(step, time.monotonic() * 1000)
                if select.select([source], [], [], pause_ms / 1000)[0]:
                    return  # the input has ended
            else:
                tell(output, ("item", step))
        tell(output, ("done", None))
    except BrokenPipeError:
        return
    except Exception as error:
        tell(output, ("error", portable(error)))


def die_with_parent() -> None:
    """Where the system can do that; elsewhere the end of the input is noticed at the next step."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def portable(error: Exception) -> Exception:
    """One that the other side can be given: itself, or else its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def tell(output: BinaryIO, message: object) -> None:
    data = pickle.dumps(message)
    output.write(LENGTH.pack(len(data)) + data)
    output.flush()


if __name__ == "__main__":
    main()
