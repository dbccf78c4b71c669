"""Sentences, figures and examples of the report."""
