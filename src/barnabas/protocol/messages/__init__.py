"""Generated from `definitions/`; nothing here is edited by hand, and nothing imports all of it."""
