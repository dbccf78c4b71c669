"""Engines, models and hardware limits for `benchmarks.sampling`."""
