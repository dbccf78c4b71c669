"""Untrusted programs in a jail: tiers, the warm interpreter, and the two-process verdict."""
