"""The verified loop: one module per stage, each from a `Run` to the sealed result."""
