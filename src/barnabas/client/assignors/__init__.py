"""Who reads what, decided by the leader of a group of the classic protocol. Pure; each assignor has its file."""
