"""Kinds of answers: one module per kind, listed in `table`."""
