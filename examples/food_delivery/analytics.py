"""Analytics of the food-delivery business, as a pipeline on Spark.

    barnabas pipeline run examples/food_delivery/analytics.py

Orders by restaurant and minute, time from order to delivery, and revenue, each to a topic in which a key's last record
counts; and payments to Parquet files by date. FOOD_DELIVERY_SERVERS names the brokers, FOOD_DELIVERY_DATA a directory.
"""

import os
from pathlib import Path

from business import DELIVERED, DELIVERIES, ORDERS, PAYMENTS, PER_MINUTE, REVENUE
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.spark.pipelines import FileSink, Pipeline, Run, TopicSink
from barnabas.spark.pipelines.processing import parsed

DATA = Path(os.environ.get("FOOD_DELIVERY_DATA", "food-delivery"))
SCHEMA = "number LONG, restaurant STRING, dish STRING, cents LONG, ordered_ms LONG"

pipeline = Pipeline(
    "food-delivery",
    servers=os.environ.get("FOOD_DELIVERY_SERVERS", "localhost:9092"),
    checkpoints=str(DATA / "checkpoints"),
    trigger="2 seconds",
    spark={"spark.sql.shuffle.partitions": "1"},
)


def orders(run: Run, topic: str) -> DataFrame:
    rows = parsed(run.stream(topic, **{"kafka.isolation.level": "read_committed"}), SCHEMA)
    return rows.select("timestamp", "data.*")


def record(key: Column, *fields: str) -> list[Column]:
    return [key.alias("key"), F.to_json(F.struct(*fields)).alias("value")]


@pipeline.flow(TopicSink(PER_MINUTE), output_mode="update")
def per_minute(run: Run) -> DataFrame:
    counted = (
        orders(run, ORDERS)
        .withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "1 minute"), "restaurant")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .withColumn("minute", F.date_format("window.start", "yyyy-MM-dd HH:mm"))
    )
    key = F.concat_ws(" ", "minute", "restaurant")
    return counted.select(*record(key, "minute", "restaurant", "orders", "cents"))


@pipeline.flow(TopicSink(DELIVERIES), output_mode="update")
def deliveries(run: Run) -> DataFrame:
    minutes = (F.col("timestamp").cast("double") - F.col("ordered_ms") / 1000) / 60
    timed = (
        orders(run, DELIVERED)
        .groupBy("restaurant")
        .agg(F.count("*").alias("orders"), F.avg(minutes).alias("minutes"), F.max(minutes).alias("slowest"))
    )
    return timed.select(*record(F.col("restaurant"), "restaurant", "orders", "minutes", "slowest"))


@pipeline.flow(TopicSink(REVENUE), output_mode="update")
def revenue(run: Run) -> DataFrame:
    paid = orders(run, PAYMENTS).groupBy("restaurant").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    return paid.select(*record(F.col("restaurant"), "restaurant", "orders", "cents"))


@pipeline.flow(FileSink(str(DATA / "payments"), partition_by=("date",)))
def lake(run: Run) -> DataFrame:
    return orders(run, PAYMENTS).withColumn("date", F.to_date("timestamp"))
