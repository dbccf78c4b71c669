"""Label-free selection among sampled paths: best-of-N and votes."""
