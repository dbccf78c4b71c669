"""Proximal policy optimization of tokens, our own: TRL has none any more.

Source: Schulman et al. 2017 (arXiv:1707.06347).
"""
