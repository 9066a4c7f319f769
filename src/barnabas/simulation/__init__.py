"""The world with faults, on a virtual clock: the same broker runs in it, and one seed replays it."""
