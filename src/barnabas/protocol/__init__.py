"""Kafka's wire and record formats, as pure code: bytes in, values out. Knows no file, socket or clock."""
