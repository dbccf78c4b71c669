"""Threads of language models: tags in plain text, questions in parts, and their verdicts."""
