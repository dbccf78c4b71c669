"""Stages as values: which there are, in what order, and how each piece of their work is done once."""
