"""The address of a running Ray cluster, checked without Ray."""

import socket

from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.environment import environment

_CONNECT_S = 10.0


def check_ray_address() -> None:
    """Connect to RAY_ADDRESS, if it is set: Ray retries for a minute, with a line on the console each.

    Raises:
        ReasonloopError: no process listens there.
    """
    address = environment("RAY_ADDRESS") or ""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # as in "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ReasonloopError(
            f"RAY_ADDRESS={address}: no answer ({reason_of(error)}); start that cluster, "
            "or unset the variable to have one on this machine"
        ) from error
