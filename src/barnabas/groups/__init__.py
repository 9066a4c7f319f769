"""Consumer groups: pure rules. They decide records and answers; only `apply` changes what is durable."""
