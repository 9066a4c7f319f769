"""Every message in every version: what is encoded comes back, and whatever the bytes, decoding fails with DecodeError
or not at all."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from barnabas.protocol.message import DecodeError
from tests.support.message_values import Case, cases, messages

CUTS = 50  # of each message; every place where it is shorter than that

quick = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # messages are small, and shrinking one takes minutes
)


def encoded(message: object, case: Case) -> bytearray:
    out = bytearray()
    message.encode(out, case.version)  # type: ignore[attr-defined]
    return out


@pytest.mark.parametrize("case", cases(), ids=str)
def test_round_trip(case: Case) -> None:
    @settings(quick, max_examples=3)
    @given(messages(case))
    def check(message: object) -> None:
        data = b"before" + encoded(message, case) + b"after"
        decoded, end = case.message_class.decode(memoryview(data), 6, case.version)
        assert decoded == message
        assert end == len(data) - 5
        assert encoded(decoded, case) == data[6:end]

    check()


@pytest.mark.parametrize("case", cases(), ids=str)
def test_malformed_input_gives_decode_error(case: Case) -> None:
    """Cuts, changed bytes and noise. A change may leave the message valid; then it must be encodable again."""

    @settings(quick, max_examples=3)
    @given(messages(case), st.data())
    def check(message: object, data: st.DataObject) -> None:
        valid = bytes(encoded(message, case))
        if not valid:
            return
        at = data.draw(st.integers(0, len(valid) - 1))
        for cut in range(at % (len(valid) // CUTS + 1), len(valid), len(valid) // CUTS + 1):
            with pytest.raises(DecodeError):
                case.message_class.decode(memoryview(valid)[:cut], 0, case.version)
        for damaged in damages(valid, at, data):
            view = memoryview(damaged)
            try:
                decoded, end = case.message_class.decode(view, 0, case.version)
            except DecodeError:
                continue
            assert end <= len(damaged)
            encoded(decoded, case)

    check()


def damages(valid: bytes, at: int, data: st.DataObject) -> list[bytes]:
    byte = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    return [
        valid[:at] + bytes([byte]) + valid[at + 1 :],
        valid[:at] + data.draw(st.binary(min_size=1, max_size=6)) + valid[at:],
        valid[:at] + b"\xff\xff\xff\xff\x0f" + valid[at:],
        valid[:at] + b"\x7f\xff\xff\xff" + valid[at + 4 :],
        data.draw(st.binary(max_size=40)),
    ]
