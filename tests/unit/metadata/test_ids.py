from random import Random

from barnabas.metadata.ids import new_uuid
from barnabas.types import uuid_text


class Scripted(Random):
    """Gives the bytes it is told to, in order."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(0)
        self._answers = list(answers)

    def randbytes(self, n: int) -> bytes:
        return self._answers.pop(0)


def test_is_of_version_4() -> None:
    uuid = new_uuid(Random(1))
    assert uuid[6] >> 4 == 4
    assert uuid[8] >> 6 == 2


def test_never_looks_like_an_option() -> None:
    dash = b"\xf8" + bytes(15)
    assert uuid_text(dash).startswith("-")
    assert new_uuid(Scripted(dash, b"\x01" * 16))[0] == 1
