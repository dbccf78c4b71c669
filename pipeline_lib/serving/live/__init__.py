"""The embedded engine in a thread of its own: sequences join and leave while others are drawn."""
