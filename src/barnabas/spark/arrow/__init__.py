"""Kafka's record batches as Arrow, and back, a column at a time.

Does not know: where bytes come from or go to, or that there is Spark.
"""
