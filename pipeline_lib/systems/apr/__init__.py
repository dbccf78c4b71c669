"""Adaptive parallel reasoning (APR): a model that spawns threads of its own and joins their results.

Source: arXiv 2504.15466.
"""
