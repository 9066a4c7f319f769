"""What is inside of a record's value: JSON or Avro, decoded into typed columns."""
