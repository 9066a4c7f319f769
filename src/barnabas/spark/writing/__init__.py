"""Writes: rows to partitions, sent by each task, at least once or each once."""
