"""Evaluation of policies by their own accuracy and by what peers make of their prefixes."""
