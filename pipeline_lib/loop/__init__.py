"""The verified loop: one module per stage, from a run to the sealed result of the stage."""
