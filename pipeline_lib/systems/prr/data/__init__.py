"""Data sets of latent models: builders, synthetic tasks, dataset files, tokens, augmentations."""
