"""XXH3, 64 bits, seed 0, by its public specification: the hash that Kafka 4.3 keeps of a group's topics (KIP-1101).

No wheel is worth this one use: a topic is hashed when it changes, and its hash is remembered.
"""

from struct import iter_unpack, unpack_from
from typing import Final

_MASK: Final = (1 << 64) - 1
_MASK_32: Final = (1 << 32) - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_STRIPE_BYTES: Final = 64
_STRIPES_PER_BLOCK: Final = 16

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def xxh3_64(data: bytes) -> int:
    """Not negative; 64 bits."""
    size = len(data)
    if size <= 16:
        return _hash_to_16(data, size)
    if size <= 240:
        return _hash_to_240(data, size)
    return _hash_long(data, size)


def _u64(data: bytes, position: int) -> int:
    value: int = unpack_from("<Q", data, position)[0]
    return value


def _hash_to_16(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        first: int = unpack_from("<I", data, 0)[0]
        last: int = unpack_from("<I", data, size - 4)[0]
        keyed = (last + (first << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        keyed ^= _rotate_left(keyed, 49) ^ _rotate_left(keyed, 24)
        keyed = keyed * _PRIME_MX2 & _MASK
        keyed ^= (keyed >> 35) + size
        keyed = keyed * _PRIME_MX2 & _MASK
        return keyed ^ (keyed >> 28)
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        flip = _u64(_SECRET, 0)
        return _avalanche_xxh64(combined ^ (flip & _MASK_32) ^ (flip >> 32))
    return _avalanche_xxh64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _hash_to_240(data: bytes, size: int) -> int:
    total = size * _PRIME64_1
    if size <= 128:
        for step in range((size - 1) // 32, -1, -1):
            total += _mix_16(data, 16 * step, 32 * step)
            total += _mix_16(data, size - 16 * (step + 1), 32 * step + 16)
        return _avalanche(total & _MASK)
    for step in range(8):
        total += _mix_16(data, 16 * step, 16 * step)
    total = _avalanche(total & _MASK)
    for step in range(8, size // 16):
        total += _mix_16(data, 16 * step, 16 * (step - 8) + 3)
    total += _mix_16(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _hash_long(data: bytes, size: int) -> int:
    lanes = [
        _PRIME32_3,
        _PRIME64_1,
        _PRIME64_2,
        _PRIME64_3,
        _PRIME64_4,
        _PRIME32_2,
        _PRIME64_5,
        _PRIME32_1,
    ]
    stripes = (size - 1) // _STRIPE_BYTES
    keys = [unpack_from("<8Q", _SECRET, 8 * step) for step in range(_STRIPES_PER_BLOCK)]
    scramble = unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_BYTES)
    for number, stripe in enumerate(iter_unpack("<8Q", data[: stripes * _STRIPE_BYTES])):
        _accumulate(lanes, stripe, keys[number % _STRIPES_PER_BLOCK])
        if (number + 1) % _STRIPES_PER_BLOCK == 0:
            for lane, key in enumerate(scramble):
                value = lanes[lane]
                lanes[lane] = (value ^ (value >> 47) ^ key) * _PRIME32_1 & _MASK
    last = unpack_from("<8Q", data, size - _STRIPE_BYTES)
    _accumulate(lanes, last, unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_BYTES - 7))
    total = size * _PRIME64_1
    for pair in range(4):
        first, second = unpack_from("<2Q", _SECRET, 11 + 16 * pair)
        total += _fold(lanes[2 * pair] ^ first, lanes[2 * pair + 1] ^ second)
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], stripe: tuple[int, ...], keys: tuple[int, ...]) -> None:
    for lane in range(8):
        keyed = stripe[lane] ^ keys[lane]
        lanes[lane ^ 1] = (lanes[lane ^ 1] + stripe[lane]) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & _MASK_32) * (keyed >> 32)) & _MASK


def _mix_16(data: bytes, position: int, key_position: int) -> int:
    low, high = unpack_from("<2Q", data, position)
    low_key, high_key = unpack_from("<2Q", _SECRET, key_position)
    return _fold(low ^ low_key, high ^ high_key)


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK
    return value ^ (value >> 32)


def _avalanche_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ (value >> 32)
