"""Label-free beam and tree search over reasoning steps."""
