"""Version of the verifiers, in a module without imports, for lineage."""

VERIFIER_VERSION = "6"
"""Recorded in the lineage of every training row; increment it when a verdict may change."""
