"""The jars of Apache Kafka and of its tools.

They come from Maven Central by name into a cache outside of the repository (ANCHOR, else ~/.cache/barnabas-anchor).
As a program, fetches them where Java and Maven are installed. `make test` does so first; its tests fetch nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSION = "4.3.1"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>anchor</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""


def cache_directory() -> Path:
    return Path(os.environ.get("ANCHOR") or Path.home() / ".cache" / "barnabas-anchor")


def libraries() -> Path:
    return cache_directory() / "libs"


def has_jars() -> bool:
    return (libraries() / f"kafka_2.13-{VERSION}.jar").exists()


def why_unavailable() -> str | None:
    """None if Kafka's tools can be run now, or after `fetch_jars`."""
    if shutil.which("java") is None:
        return "Java is not installed"
    if not has_jars() and shutil.which("mvn") is None:
        return f"Maven is not installed, which fetches the jars of Apache Kafka {VERSION}"
    return None


def why_not_here() -> str | None:
    """None if Java is installed and the jars have been fetched; otherwise the reason for which a test is skipped."""
    if reason := why_unavailable():
        return reason
    return None if has_jars() else f"the jars of Apache Kafka {VERSION} are not here: make kafka-jars fetches them"


def fetch_jars() -> None:
    """Fetches the jars with Maven unless they are here."""
    if has_jars():
        return
    cache_directory().mkdir(parents=True, exist_ok=True)
    pom = cache_directory() / "pom.xml"
    pom.write_text(POM)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={libraries()}"]
    subprocess.run(["mvn", "-q", "-f", str(pom), *goal], check=True)


def main() -> None:
    """A failure is not an error here: the tests that need the jars are then skipped, with their reason."""
    if reason := why_unavailable():
        print(f"Apache Kafka's jars were not fetched: {reason}")
        return
    try:
        fetch_jars()
    except subprocess.CalledProcessError as failed:
        print(f"Apache Kafka's jars were not fetched: Maven failed with exit status {failed.returncode}")


if __name__ == "__main__":
    main()
