"""Processes that answer one message at a time, and may be killed at any time."""
