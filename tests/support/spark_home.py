"""How the suite starts Spark: as users do, for less of the machine's time.

A life of a driver with three batches takes 48 s of processor time as Spark comes, and 26 s so; each of these is half.
"""

from importlib.util import find_spec
from pathlib import Path

# The second compiler pays for itself only after minutes.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"


def environment(directory: Path) -> dict[str, str]:
    return {"SPARK_HOME": str(home_without_zip(directory)), "SPARK_SUBMIT_OPTS": JAVA_OPTIONS}


def home_without_zip(directory: Path) -> Path:
    """Spark's home but for the archive from which workers import pyspark where it is there.

    Nobody keeps byte code for an archive, so each process compiles it anew; without it they import what is installed.
    """
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    for entry in Path(found.origin).parent.iterdir():
        if entry.name != "python":
            (directory / entry.name).symlink_to(entry)
    return directory
