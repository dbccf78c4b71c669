"""Middleware of HTTP servers, of the standard library alone: engines in other environments load it too."""
