"""The disk that forgets: what a sync keeps, what a crash may lose, and faults on demand."""

import errno
from random import Random

import pytest

from barnabas.simulation.disk import SimulatedDisk, Survival


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories("/d")
    disk.sync_directory("")
    return disk


def test_only_what_was_synced_survives_for_certain(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    file.write(0, b"one")
    file.sync()
    disk.sync_directory("/d")
    file.write(3, b"two")
    assert disk.image(Random(0), Survival.NONE).read_bytes("/d/a") == b"one"
    assert disk.image(Random(0), Survival.ALL).read_bytes("/d/a") == b"onetwo"


def test_a_name_needs_its_directory_synced(disk: SimulatedDisk) -> None:
    disk.open("/d/a").sync()
    assert not disk.image(Random(0), Survival.NONE).exists("/d/a")
    disk.sync_directory("/d")
    assert disk.image(Random(0), Survival.NONE).exists("/d/a")
    disk.rename("/d/a", "/d/b")
    assert disk.image(Random(0), Survival.NONE).list_directory("/d") == ["a"]
    disk.remove("/d/b")
    assert disk.image(Random(0), Survival.NONE).list_directory("/d") == ["a"]
    disk.sync_directory("/d")
    assert disk.image(Random(0), Survival.NONE).list_directory("/d") == []


def test_a_crash_tears_writes_at_any_byte_and_drops_any_of_them(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    disk.sync_directory("/d")
    file.write(0, b"aaaa")
    file.write(4, b"bbbb")
    seen = {disk.image(Random(seed)).read_bytes("/d/a") for seed in range(300)}
    assert {b"", b"a", b"aaa", b"aaaa", b"aaaab", b"aaaabbbb"} <= seen
    assert bytes(4) + b"bbbb" in seen  # the later write alone: the hole reads as zeros


def test_a_crash_keeps_a_prefix_of_the_changes_to_a_directory(disk: SimulatedDisk) -> None:
    for name in "abc":
        disk.open(f"/d/{name}")
    seen = {tuple(disk.image(Random(seed)).list_directory("/d")) for seed in range(100)}
    assert seen == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_a_crash_keeps_any_pages_of_a_map(disk: SimulatedDisk) -> None:
    mapped = disk.map("/d/m", 1024)
    mapped.sync()
    disk.sync_directory("/d")
    mapped.view[0:1] = b"x"
    mapped.view[600:601] = b"y"
    images = (disk.image(Random(seed)).read_bytes("/d/m") for seed in range(100))
    assert {(image[0:1], image[600:601]) for image in images} == {
        (b"\0", b"\0"),
        (b"x", b"\0"),
        (b"\0", b"y"),
        (b"x", b"y"),
    }


def test_the_same_seed_leaves_the_same_disk(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    for number in range(10):
        file.write(number * 3, b"abc")
    first, second = disk.image(Random(7)), disk.image(Random(7))
    assert first.list_directory("/d") == second.list_directory("/d")
    assert [first.read_bytes(f"/d/{n}") for n in first.list_directory("/d")] == [
        second.read_bytes(f"/d/{n}") for n in second.list_directory("/d")
    ]


def test_write_atomically_is_old_or_new_whatever_happens(disk: SimulatedDisk) -> None:
    disk.write_atomically("/d/c", b"old")
    images: list[SimulatedDisk] = []
    disk.on_operation = lambda kind: images.extend(disk.image(Random(seed)) for seed in range(10))
    disk.write_atomically("/d/c", b"new")
    assert {image.read_bytes("/d/c") for image in images} == {b"old", b"new"}
    assert disk.image(Random(0), Survival.NONE).read_bytes("/d/c") == b"new"


def test_nothing_works_after_a_crash(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    left = disk.crash(Random(0), Survival.ALL)
    for use in (lambda: file.write(0, b"x"), lambda: disk.open("/d/b"), lambda: disk.exists("/d")):
        with pytest.raises(OSError, match="crashed"):
            use()
    assert left.exists("/d/a")


def test_a_full_disk_takes_what_fits(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    disk.set_free_bytes(4)
    with pytest.raises(OSError) as caught:
        file.write(0, b"abcdef")
    assert caught.value.errno == errno.ENOSPC
    assert file.read(0, 10) == b"abcd"
    file.write(0, b"ABCD")  # no growth, no space needed
    file.truncate(0)
    file.write(0, b"wxyz")
    with pytest.raises(OSError) as caught:
        disk.map("/d/m", 8).reserve(0, 8)
    assert caught.value.errno == errno.ENOSPC


def test_the_nth_call_fails(disk: SimulatedDisk) -> None:
    file = disk.open("/d/a")
    disk.fail("write", nth=2)
    file.write(0, b"one")
    with pytest.raises(OSError) as caught:
        file.write(3, b"two")
    assert caught.value.errno == errno.EIO
    file.write(3, b"two")
    assert file.read(0, 6) == b"onetwo"


@pytest.mark.parametrize("seed", range(20))
def test_what_was_made_in_a_directory_goes_with_it(seed: int) -> None:
    """Names that were not synced must not turn up in another directory that has taken its name since."""
    disk = SimulatedDisk()
    disk.make_directories("/data/t")
    disk.sync_directory("/")
    disk.sync_directory("/data")
    disk.open("/data/t/old").write(0, b"old")
    disk.rename("/data/t", "/data/aside")
    disk.sync_directory("/data")
    disk.make_directories("/data/t")
    disk.sync_directory("/data")
    left = disk.image(Random(seed))
    assert left.list_directory("/data/t") == []
    disk.sync_directory("/data/aside")
    assert disk.image(Random(seed)).list_directory("/data/aside") == ["old"]
