"""Comparison of normalized answers by words and exact arithmetic, without SymPy."""
