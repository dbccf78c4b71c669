"""Deployments, their registration, automations."""
