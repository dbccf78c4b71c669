"""The params of every stage as frozen pydantic models, a module for each group of sections."""
