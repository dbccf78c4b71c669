"""Latent models: networks, losses, batches, and saved weights."""
