"""Training data from judged paths, with lineage."""
