"""The `reasonloop` command: one module a command, imported when the command is called."""
