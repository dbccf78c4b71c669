"""The stages of parallel latent branches."""
