"""Verification of model output: one judge per kind of answer, and the code sandbox."""

VERIFIER_VERSION = "6"
"""Recorded in the lineage of every training row; increment it when a verdict may change."""
