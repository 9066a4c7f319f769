"""The state of the cluster as its metadata log tells it: an immutable image, records applied, differences shown."""
