"""Estimates of pass@k and maj@k, confidence intervals, paired tests."""
