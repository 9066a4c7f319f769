"""PostgreSQL from the machine's packages, started for a test, and the driver by which Java speaks to it.

Holds: `why_unavailable` says in a sentence what is missing. The server listens on loopback and ends with the block; it
runs as another user where the test is run by root, since it refuses root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

READY_SECONDS_MAX = 60.0
DONE = "-- done --"
USERS = ("postgres", "nobody")  # whom root hands the server to
DRIVER_VERSION = "42.7.7"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>anchor</groupId><artifactId>postgres</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.postgresql</groupId><artifactId>postgresql</artifactId><version>{DRIVER_VERSION}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>
"""


def programs() -> Path | None:
    """Debian keeps each version's programs in a folder of its own."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    return found[-1].parent if found[-1].is_file() else None


def driver() -> Path | None:
    """The jar, from Debian's package or by Maven into a cache outside of the repository."""
    packaged = sorted(Path("/usr/share/java").glob("postgresql*.jar"))
    if packaged:
        return packaged[-1]
    cache = Path(os.environ.get("ANCHOR") or Path.home() / ".cache" / "barnabas-anchor") / "postgres"
    jar = cache / f"postgresql-{DRIVER_VERSION}.jar"
    if not jar.exists() and shutil.which("mvn") is not None:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-f", str(cache / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={cache}"], check=False, capture_output=True)
    return jar if jar.exists() else None


def _user() -> str | None:
    for name in USERS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def why_unavailable() -> str | None:
    if programs() is None:
        return "PostgreSQL is not installed (Debian: postgresql)"
    if os.getuid() == 0 and _user() is None:
        return "PostgreSQL refuses root, and there is no other user"
    if driver() is None:
        return "there is no JDBC driver (Debian: libpostgresql-jdbc-java) and no Maven to fetch it"
    return None


class Session:
    """A connection with a transaction that stays open."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*command, "-A", "-t", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.run("BEGIN")

    def run(self, statement: str) -> list[str]:
        """Its lines, once it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statement};\n\\echo {DONE}\n")
        self._process.stdin.flush()
        found: list[str] = []
        while (line := self._process.stdout.readline().rstrip("\n")) != DONE:
            assert self._process.poll() is None, "psql has ended"
            found.append(line)
        return found

    def commit(self) -> None:
        self.run("COMMIT")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate("\\q\n", timeout=READY_SECONDS_MAX)


class Postgres:
    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._folder = tempfile.TemporaryDirectory(prefix="barnabas-postgres-")
        self._user = _user() if os.getuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Postgres:
        found = programs()
        assert found is not None
        folder = Path(self._folder.name)
        if self._user is not None:
            shutil.chown(folder, self._user)
        data = folder / "data"
        make = [str(found / "initdb"), "-D", str(data), "-U", "barnabas", "-A", "trust", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, user=self._user, cwd=folder)
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(folder), "-c", "fsync=off"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(found / "postgres"), "-D", str(data), *options],
                stderr=log,
                stdout=log,
                user=self._user,
                cwd=folder,
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
        self._folder.cleanup()

    def _answers(self) -> bool:
        return self._psql("SELECT 1").returncode == 0

    def session(self) -> Session:
        return Session(self._command())

    def _command(self) -> list[str]:
        found = programs()
        assert found is not None
        return [str(found / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "barnabas", "-d", "postgres"]

    def _psql(self, statement: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(), "-A", "-t", "-c", statement], capture_output=True, text=True, check=False
        )

    def run(self, statement: str) -> list[str]:
        """Its lines, with | between columns."""
        done = self._psql(statement)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()
