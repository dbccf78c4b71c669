"""Item sets and load tests for `benchmarks.verification`."""
