"""Spark's way to the log: the data source `barnabas` for batch and streaming reads and writes."""
