"""Kafka's wire as pure functions over bytes: messages, frames, record batches, compression. No IO, no clock."""
