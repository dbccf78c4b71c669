"""Runs on Ray: runner, nodes, workers, peers; the only importers of Ray."""
