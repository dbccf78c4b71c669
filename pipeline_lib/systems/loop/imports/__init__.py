"""Rollouts of other tools: their files, and what the verifier says about them."""
