"""The version of the verifiers, alone in a module so that lineage needs no verifier to name it."""

VERIFIER_VERSION = "4"
"""Part of every training row's lineage: change it whenever some verdict may change."""
