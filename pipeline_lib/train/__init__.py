"""Training methods on TRL and PEFT, with verified checkpoints and resume."""
