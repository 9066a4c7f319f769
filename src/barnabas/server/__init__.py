"""The shell around the rules: sockets, requests, partitions, and one broker that holds them together."""
