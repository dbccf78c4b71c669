"""The stages of adaptive parallel reasoning: one module each, since each depends on its own code."""
