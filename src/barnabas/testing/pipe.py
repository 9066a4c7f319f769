"""Values through a pipe: pickled, each after its length. Both ends are ours."""

import pickle
import struct
from typing import IO, Any

LENGTH = struct.Struct(">I")


def send(pipe: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """None at the end of the pipe."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return pickle.loads(pipe.read(LENGTH.unpack(head)[0]))
