"""Apache Kafka's compiled JUnit classes, run against Barnabas processes.

Maven resolves the jars by name; the adapter and the runner are compiled once for each state of their sources. Each
class runs in a JVM of its own, which leads the session of its brokers, so that none of them outlives the class.
Does not know: what an outcome is worth (see verdicts.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "4.3.1"
CACHE = (
    Path(os.environ.get("BARNABAS_COMPAT_CACHE") or Path.home() / ".cache" / "barnabas-compat")
    / f"apache-kafka-{VERSION}"
)
OUTCOMES = CACHE / "outcomes.tsv"  # of the last run of each test
# The modules of Kafka whose tests start a cluster, and the artifact that holds them.
MODULES = {
    "clients": "kafka-clients-integration-tests",
    "tools": "kafka-tools",
    "core": "kafka_2.13",
    "server": "kafka-server",
    "storage": "kafka-storage",
    "streams": "kafka-streams-integration-tests",
}
# The console jar contains JUnit's own parts; a second copy of them would conflict with it.
EXCLUDED = (
    "-DexcludeGroupIds=org.junit.jupiter",
    "-DexcludeArtifactIds=junit-platform-commons,junit-platform-engine,junit-platform-launcher,opentest4j",
)
JVM_FLAGS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dlog4j2.disable.jmx=true")
LOGGING = "rootLogger.level = info\n"  # some tests read what clients log; without an appender it goes nowhere else
GRACE_SECONDS = 30  # the JVM ends itself at its limit; this is how long it may take to do so
COMMON_PACKAGE = "org.apache.kafka."


class CannotRun(Exception):
    """Why the suites cannot run here."""


@dataclass(frozen=True, slots=True)
class TestClass:
    module: str
    name: str  # with its package
    method: str | None = None

    @property
    def short_name(self) -> str:
        return self.name.removeprefix(COMMON_PACKAGE)

    @property
    def selector(self) -> str:
        return f"{self.name}#{self.method}" if self.method else self.name


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the runner: what became of one invocation of one test."""

    module: str
    class_name: str  # without the common package
    test: str
    status: str  # passed, failed, aborted (looks inside the JVM), timeout, or skipped (by Kafka)
    seconds: float
    message: str

    @property
    def id(self) -> str:
        return f"{self.class_name}#{self.test}"

    @property
    def method(self) -> str:
        return re.split(r"\W", self.test, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Limits:
    class_seconds: int = 600
    test_seconds: int = 120


class Suites:
    """The jars and the compiled adapter. Made by `prepare`."""

    def __init__(self, cache: Path, jars: list[str]) -> None:
        self._cache = cache
        self._jars = jars
        self._runner = self._compiled("runner")
        self._adapter = self._compiled("adapter")

    def classes(self, modules: Sequence[str] = tuple(MODULES)) -> list[TestClass]:
        return [TestClass(module, name) for module in modules for name in self._class_names(module)]

    def find(self, name: str) -> TestClass:
        """By CLASS or CLASS#METHOD; the class with or without its package."""
        wanted, _, method = name.partition("#")
        for each in self.classes():
            if each.name == wanted or each.name.endswith("." + wanted):
                return TestClass(each.module, each.name, method or None)
        raise CannotRun(f"no class {wanted} of Kafka's tests starts a cluster; run --list names those that do")

    def run(
        self,
        classes: Sequence[TestClass],
        barnabas: str | None,
        *,
        limits: Limits,
        jobs: int = 1,
        keep: Path | None = None,
        report: Callable[[TestClass, list[Outcome]], None] = lambda tested, outcomes: None,
    ) -> list[Outcome]:
        """Outcomes of all classes. `barnabas` is the command that starts it; None tests Kafka itself, in the JVM."""
        found: list[Outcome] = []
        with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
            work = keep or Path(scratch)
            running: set[subprocess.Popen[bytes]] = set()
            futures = {
                pool.submit(self._run_class, each, barnabas, limits, work, keep is not None, running): each
                for each in classes
            }
            try:
                for future in as_completed(futures):
                    report(futures[future], future.result())
                    found += future.result()
            finally:  # reached early by an interrupt
                for future in futures:
                    future.cancel()
                for process in list(running):
                    end_session(process)
        return found

    def _run_class(
        self,
        tested: TestClass,
        barnabas: str | None,
        limits: Limits,
        work: Path,
        keep: bool,
        running: set[subprocess.Popen[bytes]],
    ) -> list[Outcome]:
        directory = work / re.sub(r"\W", "-", tested.selector)
        directory.mkdir(parents=True)
        result, output = directory / "result.tsv", directory / "output"
        path = (
            [str(self._runner), *self._jars]
            if barnabas is None
            else [str(self._adapter), str(self._runner), *self._jars]
        )
        properties = [f"-Djava.io.tmpdir={directory}", f"-Dbarnabas={barnabas}", f"-Dbarnabas.keep={str(keep).lower()}"]
        arguments = [
            "run",
            tested.module,
            tested.selector,
            str(limits.class_seconds),
            f"{limits.test_seconds} s",
            str(result),
        ]
        with output.open("w") as printed:
            process = subprocess.Popen(
                self._java(path, *properties, "barnabas.kafkatests.KafkaTests", *arguments),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running.add(process)
        try:
            process.wait(limits.class_seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            with output.open("a") as printed:
                printed.write(f"\nthe JVM still ran {GRACE_SECONDS} s after its limit of {limits.class_seconds} s\n")
        finally:
            end_session(process)
            running.discard(process)
        outcomes = read_outcomes(result) if result.exists() else []
        if not outcomes:
            said = output.read_text(errors="replace").strip().splitlines() or ["no output"]
            message = f"the JVM reported no test: {said[-1]}"
            outcomes = [Outcome(tested.module, tested.short_name, "(class)", "failed", 0.0, message)]
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
        return outcomes

    def _class_names(self, module: str) -> list[str]:
        known = self._cache / f"classes-of-{module}"
        if not known.exists():
            jar = next(each for each in self._jars if Path(each).name == f"{MODULES[module]}-{VERSION}-test.jar")
            path = [str(self._runner), *self._jars]
            listed = subprocess.run(
                self._java(path, "barnabas.kafkatests.KafkaTests", "list", jar), capture_output=True, text=True
            )
            if listed.returncode != 0 or not listed.stdout:
                raise CannotRun(f"the tests of {module} cannot be listed: {listed.stderr.strip()[-500:]}")
            write_whole(known, listed.stdout)
        return known.read_text().split()

    def _compiled(self, part: str) -> Path:
        files = sorted(each for each in (HERE / part).rglob("*") if each.is_file())
        sources = [each for each in files if each.suffix == ".java"]
        digest = hashlib.sha256(b"".join([*(each.read_bytes() for each in files), LOGGING.encode()])).hexdigest()[:16]
        classes = self._cache / f"{part}-{digest}"
        if classes.exists():
            return classes
        with tempfile.TemporaryDirectory(dir=self._cache) as made:
            command = ["javac", "-nowarn", "-proc:none", "-Xlint:none", "-cp", ":".join(self._jars), "-d", made]
            done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
            if done.returncode != 0:
                raise CannotRun(f"javac cannot compile the {part}:\n{done.stderr}")
            shutil.copytree(HERE / part, made, ignore=shutil.ignore_patterns("*.java"), dirs_exist_ok=True)
            (Path(made) / "log4j2.properties").write_text(LOGGING)
            if not classes.exists():  # another run may have been quicker
                shutil.copytree(made, f"{classes}.{os.getpid()}")
                Path(f"{classes}.{os.getpid()}").rename(classes)
        return classes

    def _java(self, path: Sequence[str], *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._runner}/log4j2.properties"
        return ["java", *JVM_FLAGS, logging, "-cp", ":".join(path), *arguments]


def why_unavailable() -> str | None:
    for command, product in (("javac", "a Java development kit"), ("mvn", "Maven")):
        if shutil.which(command) is None:
            return f"{product} is not installed"
    return None


def prepare() -> Suites:
    """Resolves the jars with Maven unless an earlier run did, and compiles the adapter."""
    if reason := why_unavailable():
        raise CannotRun(reason)
    pom = (HERE / "pom.xml").read_bytes()
    cache = CACHE / hashlib.sha256(pom).hexdigest()[:16]
    known = cache / "class-path"
    jars = known.read_text().split(":") if known.exists() else []
    if not jars or not all(Path(jar).exists() for jar in jars):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            listed = Path(scratch) / "class-path"
            goal = ["dependency:build-classpath", f"-Dmdep.outputFile={listed}", *EXCLUDED]
            done = subprocess.run(
                ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), *goal], capture_output=True, text=True
            )
            if done.returncode != 0:
                raise CannotRun(f"Maven cannot resolve Kafka's tests: {(done.stdout + done.stderr).strip()[-500:]}")
            write_whole(known, listed.read_text().strip())
        jars = known.read_text().split(":")
    return Suites(cache, jars)


def own_barnabas() -> str:
    """The `barnabas` command beside the running interpreter."""
    return str(Path(sys.executable).with_name("barnabas"))


def read_outcomes(path: Path) -> list[Outcome]:
    return list(_parsed(path.read_text().splitlines()))


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        "\t".join((each.module, each.class_name, each.test, each.status, f"{each.seconds:.1f}", each.message))
        for each in outcomes
    ]
    write_whole(path, "".join(line + "\n" for line in lines))


def _parsed(lines: Sequence[str]) -> Iterator[Outcome]:
    for line in lines:
        module, class_name, test, status, seconds, message = line.split("\t")
        yield Outcome(module, class_name, test, status, float(seconds), message)


def write_whole(path: Path, text: str) -> None:
    """So that a concurrent reader sees the old or the new file, and never a part."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Ends the JVM and its brokers."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of them have ended
    finally:
        process.wait()
