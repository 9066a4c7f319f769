"""Pipelines on Spark: sources and sinks by name, checkpoints under one folder, exactly once unless asked otherwise."""

from barnabas.spark.pipelines.model import EachBatch, FileSink, Flow, Pipeline, Polling, Run, TopicSink

__all__ = ["EachBatch", "FileSink", "Flow", "Pipeline", "Polling", "Run", "TopicSink"]
