"""Checks of the repository's own rules, as functions from source to complaints; tests/tidy runs them."""
