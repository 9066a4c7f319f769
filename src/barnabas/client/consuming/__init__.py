"""What a consumer is made of: what it reads and how far, records fetched ahead, membership in a group."""
