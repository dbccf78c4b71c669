"""Commands that read or write files of other tools."""
