"""Trusted tests run against a candidate in another process."""
