"""Transactions: pure rules. They decide records, answers and markers; only `apply` changes what is durable."""
