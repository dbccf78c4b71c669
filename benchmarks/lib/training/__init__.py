"""Cases and trainers for `benchmarks.training`."""
