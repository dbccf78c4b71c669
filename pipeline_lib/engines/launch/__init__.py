"""Processes of engines: start, readiness, hang detection, restarts, adapters, stop."""
