"""Ports of this machine, taken before anybody is told of them, and kept for those who will serve there.

Always holds: a port that was taken is nobody else's until it is let go, also while the process that serves there is
down: nothing listens on a port that is only kept, so whoever dials it is refused at once, as he should be.
Linux lets another process of ours listen on a port that is kept here, provided that both allow the reuse of addresses.
Elsewhere a port is let go as soon as it was found free, and somebody else may be quicker.
"""

import errno
import socket
import sys
from types import TracebackType

CAN_KEEP = sys.platform == "linux"


class Ports:
    """`with Ports(host) as ports:`"""

    def __init__(self, host: str) -> None:
        self._host = host
        self._kept: list[socket.socket] = []

    def take(self, port: int) -> int:
        """This port, or for 0 a free one. OSError says which one cannot be had."""
        family, kind, protocol, _name, address = socket.getaddrinfo(
            self._host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, protocol)
        self._kept.append(taken)
        # Only a port that was asked for may have been used a moment ago; a free one must be free.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(address)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had: {error.strerror}"
            raise OSError(error.errno, f"port {port} of {self._host or 'this machine'} {why}") from error
        found: int = taken.getsockname()[1]
        return found

    def settle(self) -> None:
        """All have been taken, and differ."""
        if not CAN_KEEP:
            self.close()

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    def __enter__(self) -> "Ports":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
