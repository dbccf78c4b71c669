"""The embedded engine: prefill, continuous batching, sampling, adapters, its thread."""
