"""The other end of the wire: what asks brokers."""
