"""The library of reasonloop: no orchestrator, no cluster, no data versioning."""
