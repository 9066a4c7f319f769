"""Turns `src/barnabas/protocol/definitions/` into the Python modules of `src/barnabas/protocol/messages/`."""
