"""Rollout engines, one module each; `table` lists them."""
