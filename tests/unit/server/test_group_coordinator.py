"""Which shard a group belongs to, and who its clients are to other people."""

import pytest

from barnabas.server.coordinator import java_hash
from barnabas.server.group_client import java_address


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", 0),  # the least number of 32 bits has no positive counterpart
        ("connect-cluster", 1440343063),
        ("groupé", 1237460406),
        ("😀", 1772899),
    ],
)
def test_the_hash_is_javas_without_its_sign(text: str, number: int) -> None:
    assert java_hash(text) == number


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "/2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.0.0.1", "/10.0.0.1"),
    ],
)
def test_addresses_as_java_writes_them(host: str, shown: str) -> None:
    assert java_address(host) == shown
