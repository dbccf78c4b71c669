"""Decoding of the embedded engine: prefill, continuous batching, attention, sampling."""
