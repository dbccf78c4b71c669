"""Verification of JSONL files of answers."""
