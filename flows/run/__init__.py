"""What surrounds any run: admission, guard, fan-out, failures, the end of a run."""
