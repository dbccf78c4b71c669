"""Comparison of formulas, sets and regions with SymPy; runs in worker processes."""
