"""From judged paths to training data, with lineage."""
