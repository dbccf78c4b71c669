"""Verification of model output: one judge per kind of answer, and the code sandbox."""
