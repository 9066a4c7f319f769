"""What the fuzzers share: seeded cases, mutations, and a report that replays a failure.

Case N of seed S is the same on every machine: `--seed S --first N --cases 1` runs it again, alone.
"""

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

INTERESTING_BYTES = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff")
INTERESTING_NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
MUTATIONS_MAX = 6
SLOW_CASE_SECONDS = 2.0  # any case that takes longer is a finding of its own

Case = Callable[[random.Random], str]


def arguments(description: str, *, target: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    if target:
        parser.add_argument("address", metavar="HOST:PORT", help="a broker on this machine, with nothing in it to lose")
    parser.add_argument("--seconds", type=float, default=60, help="stop after this long (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock, and printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default 0)")
    parser.add_argument("--cases", type=int, default=None, help="stop after so many cases")
    return parser.parse_args()


def run(case: Case, options: argparse.Namespace, *, slow_case_seconds: float = SLOW_CASE_SECONDS) -> None:
    """Runs cases until the time is up. Leaves with 1 and the command that replays it at the first failure."""
    seed = time.time_ns() % 10**9 if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    outcomes: Counter[str] = Counter()
    number = options.first
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and (options.cases is None or number < options.first + options.cases):
        started = time.monotonic()
        try:
            outcome = case(random.Random(f"{seed} {number}"))
        except Exception:
            traceback.print_exc()
            fail(seed, number)
        if time.monotonic() - started > slow_case_seconds:
            print(f"case {number} took {time.monotonic() - started:.1f} s")
            fail(seed, number)
        outcomes[outcome] += 1
        number += 1
    print(f"{number - options.first} cases: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()))


def fail(seed: int, number: int) -> None:
    words = [word for word in sys.argv if not word.startswith("--")][:2]
    target = f" {words[1]}" if len(words) > 1 and ":" in words[1] else ""
    print(f"again: python {words[0]}{target} --seed {seed} --first {number} --cases 1")
    sys.exit(1)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few small changes, of the kinds that break parsers: lengths, signs, ends, repetitions."""
    out = bytearray(data)
    for _ in range(chance.randint(1, MUTATIONS_MAX)):
        chance.choice(_MUTATIONS)(out, chance)
    return bytes(out)


def _flip_bit(out: bytearray, chance: random.Random) -> None:
    if out:
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)


def _set_byte(out: bytearray, chance: random.Random) -> None:
    if out:
        at = chance.randrange(len(out))
        out[at : at + 1] = chance.choice(INTERESTING_BYTES)


def _set_number(out: bytearray, chance: random.Random) -> None:
    size = chance.choice((2, 4, 8))
    if len(out) >= size:
        at = chance.randrange(len(out) - size + 1)
        number = chance.choice(INTERESTING_NUMBERS) % (1 << 8 * size)
        out[at : at + size] = number.to_bytes(size, "big")


def _insert(out: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(out))
    out[at:at] = chance.randbytes(chance.choice((1, 1, 2, 4, 9, 64)))


def _delete(out: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(out))
    del out[at : at + chance.choice((1, 1, 2, 4, 9, 64))]


def _cut(out: bytearray, chance: random.Random) -> None:
    del out[chance.randint(0, len(out)) :]


def _repeat(out: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(out))
    piece = out[at : at + chance.randint(1, 32)]
    out[at:at] = piece * chance.choice((1, 2, 50))


def _stretch_varint(out: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(out))
    out[at:at] = b"\xff" * chance.randint(1, 12)


_MUTATIONS = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_number,
    _set_number,
    _insert,
    _delete,
    _cut,
    _repeat,
    _stretch_varint,
)
