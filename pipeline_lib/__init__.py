"""What reasonloop does, understandable without an orchestrator, a cluster or a data versioner."""
