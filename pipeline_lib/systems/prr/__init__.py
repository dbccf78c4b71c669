"""PRR: one tiny recursive network with K parallel latent hypotheses, on data of TRM and HRM."""
