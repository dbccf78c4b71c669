"""Deployments, their registration, alerts."""
