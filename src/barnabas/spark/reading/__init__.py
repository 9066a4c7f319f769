"""Reads: where they begin and end, what each task reads, records from brokers or from files; batches and streams.

Does not know: how records are encoded.
"""
