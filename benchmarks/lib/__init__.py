"""Shared parts of the benchmarks; scripts are one folder up."""
