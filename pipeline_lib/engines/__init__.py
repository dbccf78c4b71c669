"""Rollout engines behind one protocol: embedded, servers, clients."""
