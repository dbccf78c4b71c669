"""Units of systemd for the Prefect server and a worker, so that both come back after a restart."""

import pathlib
import sys

from pipeline_lib.params.environment import environment

PORT = 4200
"""Fixed, since the worker's unit names it."""
_STOP_S = 60

_SERVER = """\
# ~/.config/systemd/user/reasonloop-server.service
[Unit]
Description=Prefect server of reasonloop

[Service]
ExecStart={python} -m flows.cli server start --foreground --port {port}
WorkingDirectory={folder}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target

"""
_WORKER = """\
# ~/.config/systemd/user/reasonloop-worker-{pool}.service
[Unit]
Description=Prefect worker of reasonloop, work pool {pool}
{order}
[Service]
Environment=PREFECT_API_URL={api_url}
Environment=PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1
ExecStart={python} -m prefect worker start --pool {pool} --type process
WorkingDirectory={folder}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec={stop_s}

[Install]
WantedBy=default.target

"""
_AFTER_SERVER = "Wants=reasonloop-server.service\nAfter=reasonloop-server.service\n"


def units(pools: list[str], folder: pathlib.Path) -> str:
    """A unit per worker, and one of the server unless PREFECT_API_URL names another one.

    Args:
        pools: Work pools.
        folder: Working folder of the worker: relative workspaces of deployments start there.
    """
    configured = environment("PREFECT_API_URL")
    filled = {"python": _quoted(sys.executable), "folder": str(folder).replace("%", "%%")}
    filled |= {"port": str(PORT), "stop_s": str(_STOP_S)}
    filled["api_url"] = configured or f"http://127.0.0.1:{PORT}/api"
    filled["order"] = "" if configured else _AFTER_SERVER
    server = "" if configured else _SERVER.format_map(filled)
    return server + "".join(_WORKER.format_map(filled | {"pool": pool}) for pool in pools)


def _quoted(path: str) -> str:
    """A word of a command line; a percent sign begins a specifier of systemd."""
    return '"' + path.replace("%", "%%") + '"'
