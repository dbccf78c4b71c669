"""Judge of Python functions by tests, in the sandbox."""
