"""What leader and followers of a partition agree on. Pure: no IO, no clock, no chance of its own."""
