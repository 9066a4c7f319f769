"""The one door to clock, disk, network and randomness. `interfaces` says what; `system` is the real world."""
