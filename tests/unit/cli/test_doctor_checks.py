"""What the doctor finds."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from barnabas.cli import doctor_checks
from barnabas.cli.doctor_checks import OK, WARNING, WRONG, Check
from barnabas.log.checkpoint import META_PROPERTIES_FILE_NAME, MetaProperties, encode_meta_properties


def by_name(checks: Iterable[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_this_machine_is_well() -> None:
    found = by_name([*doctor_checks.python(), *doctor_checks.descriptors()])
    assert found["python"].status == OK
    assert found["package crc32c"].status == OK
    assert found["open files"].status in (OK, WARNING)


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise doctor_checks.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor_checks.importlib.metadata, "version", version)
    found = by_name(doctor_checks.python())
    assert (found["package uvloop"].status, found["package crc32c"].status) == (WARNING, WRONG)
    assert "pip install uvloop" in (found["package uvloop"].advice or "")


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (check,) = doctor_checks.port("127.0.0.1", taken.getsockname()[1])
        assert check.status == WARNING
        assert "--port" in (check.advice or "")
        number = taken.getsockname()[1]
    (check,) = doctor_checks.port("127.0.0.1", number)
    assert check.status == OK


@pytest.fixture
def node(tmp_path: Path) -> Path:
    directory = tmp_path / "node-7"
    directory.mkdir()
    properties = MetaProperties(cluster_id="cluster", node_id=7, directory_id=bytes(range(16)))
    (directory / META_PROPERTIES_FILE_NAME).write_bytes(encode_meta_properties(properties))
    return directory


def check_of(node: Path) -> Check:
    return by_name(doctor_checks.data_directory(node.parent))[f"node in {node}"]


def test_a_directory_that_nobody_uses(node: Path) -> None:
    check = check_of(node)
    assert (check.status, check.found) == (OK, "node 7 of cluster cluster, not in use")


def test_a_stale_pid(node: Path) -> None:
    (node / "pid").write_text("999999999\n")
    check = check_of(node)
    assert check.status == WARNING
    assert "did not stop in good order" in check.found


@pytest.mark.parametrize("is_known", [True, False])
def test_a_directory_that_is_locked(node: Path, is_known: bool) -> None:
    if is_known:
        (node / "pid").write_text(f"{os.getpid()}\n")
    with (node / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check = check_of(node)
    assert check.status == (OK if is_known else WARNING)
    assert f"process {os.getpid()}" in check.found or not is_known


def test_broken_properties(node: Path) -> None:
    (node / META_PROPERTIES_FILE_NAME).write_text("version=1\n")
    assert check_of(node).status == WRONG


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert by_name(doctor_checks.data_directory(path))[f"directory {path}"].status == WRONG


def test_a_directory_yet_to_be_made_is_judged_by_its_parent(tmp_path: Path) -> None:
    found = by_name(doctor_checks.data_directory(tmp_path / "a" / "b"))
    assert found[f"directory {tmp_path}"].status == OK


@pytest.mark.parametrize(
    ("free", "status"),
    [(100 << 30, OK), (30 << 30, OK), (3 << 30, WARNING), (1 << 20, WRONG)],
)
def test_disks_that_fill_up(free: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks.shutil, "disk_usage", lambda _path: (200 << 30, 0, free))
    check = by_name(doctor_checks.data_directory(tmp_path))[f"disk of {tmp_path}"]
    assert check.status == status
    assert (check.advice is None) == (status == OK)
