"""The embedded engine over HTTP: OpenAI's routes around a thread that draws."""
