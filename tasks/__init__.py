"""Prefect tasks around functions of pipeline_lib: retries, timeouts and names."""
