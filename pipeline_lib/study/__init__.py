"""Evaluation of policies: pass@k, paired comparisons, and test-time compute curves."""
