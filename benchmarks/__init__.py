"""Measurements behind the claims of docs/results: `python -m benchmarks.NAME --help`."""
