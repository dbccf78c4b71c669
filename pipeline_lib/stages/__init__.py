"""Stages as values, in order; stage keys; work that is done once per key."""
