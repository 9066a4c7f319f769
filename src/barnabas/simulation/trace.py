"""What happened in a run, line by line, and one digest of all of it.

Always holds: two runs with the same digest did the same things at the same virtual moments. Lines hold only values that
a seed determines: no addresses of objects, no real time, nothing in the order of a set.
Does not know: what a line means.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

LINES_KEPT = 4000  # the last ones, for whoever looks at a failure


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._digest = blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.sink: Callable[[str], None] | None = None  # given every line as it comes

    def note(self, line: str, data: bytes = b"") -> None:
        """`data` counts for the digest and is not kept."""
        stamped = f"{self._now():12.6f} {line}"
        self._digest.update(stamped.encode())
        self._digest.update(data)
        self.lines.append(stamped)
        if self.sink is not None:
            self.sink(stamped)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()
