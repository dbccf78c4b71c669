"""Releases and Kafka streams of runs."""
