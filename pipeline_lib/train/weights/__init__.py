"""Model weights on disk: policies, low-rank adapters, 4-bit bases, exported models."""
