"""Evaluation of policies by their own accuracy and by the success of peers on their prefixes."""
