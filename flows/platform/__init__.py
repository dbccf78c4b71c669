"""What lives longer than a run: deployments, their registration, alerts."""
