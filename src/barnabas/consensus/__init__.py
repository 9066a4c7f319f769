"""KRaft: how the voters of the metadata log agree on one leader and one history. Pure: no IO, no clock, no chance."""
