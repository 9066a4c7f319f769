"""By this module Spark finds the data source `barnabas`: it imports every `pyspark_*` and asks for DefaultSource."""

from barnabas.spark.source import BarnabasSource as DefaultSource

__all__ = ["DefaultSource"]
