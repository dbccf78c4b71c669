"""The stages of Classmate: one module each, since each depends on its own code."""
