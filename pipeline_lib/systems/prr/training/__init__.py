"""Training of a latent model: optimizers, averaged weights, checkpoints, devices."""
