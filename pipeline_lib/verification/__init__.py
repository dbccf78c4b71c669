"""Verdicts on model output that cannot be fooled, hung or confused."""
