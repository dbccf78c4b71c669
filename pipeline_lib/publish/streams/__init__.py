"""Verification over Kafka topics, an extra; no stage depends on it."""
