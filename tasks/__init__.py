"""Thin Prefect tasks around functions of pipeline_lib: retries, timeouts, names, nothing else."""
