"""Methods that train on stored paths: SFT and DPO."""
