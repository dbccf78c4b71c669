"""An OpenAI-compatible server whose answers are drawn in rounds."""
