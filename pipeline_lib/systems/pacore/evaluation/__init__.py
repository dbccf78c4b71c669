"""Synthesis compared with votes over plain paths: trials, estimates, report."""
