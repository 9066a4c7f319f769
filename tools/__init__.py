"""Programs of this repository that are not part of the product."""
