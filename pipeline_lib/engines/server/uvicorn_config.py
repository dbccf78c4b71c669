"""Settings of uvicorn that all servers of this project share."""

import uvicorn
from fastapi import FastAPI

_STOP_S = 1
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so none is closed under a request."""


def uvicorn_config(app: FastAPI) -> uvicorn.Config:
    """No access log, no websockets; requests in flight are cancelled soon after a signal."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
    )
