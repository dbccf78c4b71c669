"""Countdown by threads: searches, their texts, the grammar of these texts, and data folders."""
