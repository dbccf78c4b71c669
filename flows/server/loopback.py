"""The loopback interface, and unused ports of it."""

import socket

LOOPBACK = "127.0.0.1"


def unused_port() -> int:
    """A port of the system's choice, on which no process listens now."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
