"""pass@k, intervals and paired tests."""
