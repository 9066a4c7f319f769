"""Coordinators of groups and of transactions: shards of their topics, loaded, asked, written and left to others."""
