"""The metadata quorum: `consensus.raft` carried out on the metadata log and among the voters; and snapshots."""
