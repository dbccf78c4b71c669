"""Commands of adaptive parallel reasoning."""
