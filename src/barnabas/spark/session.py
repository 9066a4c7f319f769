"""A Spark session that works where Barnabas is installed: Java found, workers on this very interpreter.

Owns the environment that Spark's processes are started with, and the few settings that Barnabas wants otherwise than
Spark's defaults. What the caller gives goes before both.
Always holds: it says on standard error which Java is used where that is not an installed one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from barnabas.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Local work of this size is slowed down by Spark's 200.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.stopTimeout": "60s",
    # Scans were a tenth faster than with TCP between Python and Java.
    "spark.python.unix.domain.socket.enabled": str(os.name == "posix").lower(),
}
PANDAS_MAJOR_MAX = 2
FOUND_BY_SPARK = "DATA_SOURCE_ALREADY_EXISTS"


class UnfitPandas(Exception):
    """The installed pandas is one that this Spark cannot work with."""


def prepare(environment: MutableMapping[str, str] | None = None) -> Java:
    """Sets what Spark's launcher and workers read from the environment; gives the Java that they will run on."""
    environment = os.environ if environment is None else environment
    check_pandas()
    java = find_java(environment)
    environment["JAVA_HOME"] = str(java.home)
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if java.is_bundled:
        print(f"barnabas: Spark runs on {java}; set JAVA_HOME for another one", file=sys.stderr)
    return java


def check_pandas() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("pandas")
    except PackageNotFoundError:
        return  # Arrow alone is enough for the data source
    if int(found.split(".")[0]) > PANDAS_MAJOR_MAX:
        raise UnfitPandas(f"pandas {found} is too new for this Spark: pip install 'pandas<{PANDAS_MAJOR_MAX + 1}'")


def session(
    name: str = "barnabas", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, made where there is none yet. `settings` are Spark's own, by their names."""
    prepare()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    _register(made)
    return made


def _register(made: SparkSession) -> None:
    """Spark finds the data source by itself, unless the machine is so busy that the search takes it too long: then it
    goes on without, in silence, for as long as the session lives."""
    from pyspark.errors import PySparkException

    from barnabas.spark.source import BarnabasSource

    try:
        made.dataSource.register(BarnabasSource)
    except PySparkException as error:
        if error.getCondition() != FOUND_BY_SPARK:
            raise
