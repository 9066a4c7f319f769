"""Numbers in requests that stand for something else than a number, as clients and brokers agree on them."""

# `acks` of Produce: all replicas that are in sync.
ACKS_ALL = -1

# `isolation_level` of Fetch and ListOffsets
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

# `timestamp` of ListOffsets: a place in the log rather than a time
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
