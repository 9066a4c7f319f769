"""Partitions on this broker: led or followed, waited for, cleaned and kept on disk."""
