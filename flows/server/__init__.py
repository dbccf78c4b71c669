"""The local Prefect server: its process, its address, the pages of reports."""
