"""Commands for the machine, the Prefect server, deployments and releases."""
