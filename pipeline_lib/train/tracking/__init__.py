"""Experiment trackers such as DVCLive, TensorBoard or W&B; no part of a result."""
