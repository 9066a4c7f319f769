"""One partition's bytes on disk, and the rules for them. Synchronous; knows Disk and nothing else of the world."""
