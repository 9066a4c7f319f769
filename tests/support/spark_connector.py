"""Spark's own Kafka connector, as oracle and as the other side of benchmarks.

Its jars come from Maven Central by name into a cache outside of the repository, beside Apache Kafka's own.
Holds: where they are missing and Maven is too, `why_unavailable` says so in a sentence.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from apache_kafka import cache_directory

# No later connector, and no later token provider, was to be had for Spark 4.2; only these four are needed beside Spark.
ARTIFACTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)


def jars() -> list[Path]:
    return [cache_directory() / "spark-connector" / f"{name}-{version}.jar" for _, name, version in ARTIFACTS]


def missing() -> list[Path]:
    return [jar for jar in jars() if not jar.exists()]


def why_unavailable() -> str | None:
    """None if the connector can be used now, or after `fetch_jars`."""
    if missing() and shutil.which("mvn") is None:
        return f"the jars of Spark's Kafka connector are not in {jars()[0].parent} and Maven is not installed"
    return None


def fetch_jars() -> None:
    """By Maven, where they are missing."""
    for group, name, version in ARTIFACTS:
        target = jars()[0].parent
        if not (target / f"{name}-{version}.jar").exists():
            target.mkdir(parents=True, exist_ok=True)
            goal = ["dependency:copy", f"-Dartifact={group}:{name}:{version}", f"-DoutputDirectory={target}"]
            subprocess.run(["mvn", "-q", *goal], check=True, cwd=target)


def setting() -> dict[str, str]:
    """What a session needs in order to have the connector."""
    return {"spark.jars": ",".join(str(jar) for jar in jars())}
