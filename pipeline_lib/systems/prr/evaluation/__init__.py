"""Evaluation of a latent model: metrics of K branches, votes on ARC grids, pictures."""
