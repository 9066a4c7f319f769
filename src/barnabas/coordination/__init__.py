"""Pure: what the coordinators of groups and of transactions have in common."""
