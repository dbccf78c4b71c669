"""Commands that read or write files of other tools, and the embedded engine's server."""
