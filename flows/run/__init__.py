"""Admission, guard, failures and watchdogs of a run."""
