"""What a producer is made of: records into batches, batches to the leaders, transactions."""
