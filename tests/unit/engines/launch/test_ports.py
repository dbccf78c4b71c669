"""Ports are leased exclusively."""

import os
import socket
import subprocess
import sys

import pytest

from pipeline_lib.engines.launch.probes import is_free, lease_port, listening_pids
from pipeline_lib.errors import ReasonloopError

HOLD = """
import sys
from pipeline_lib.engines.launch.probes import lease_port
port, lease = lease_port(int(sys.argv[1]))
print(port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_port_in_use_gives_the_next(listener):
    """The first one tried has a listener, so a later one is leased."""
    taken = listener.getsockname()[1]
    assert not is_free(taken)
    port, lease = lease_port(taken)
    assert port > taken
    lease.close()


def test_a_listener_on_all_addresses_counts():
    """A server on 0.0.0.0 would get the requests although 127.0.0.1 itself is not bound."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_a_lease_is_exclusive_before_the_port_is_bound(listener):
    """No other lease gets the port before the engine binds it; a released port is free again."""
    first, held = lease_port(18400)
    second, other = lease_port(first)
    assert second > first
    other.close()
    held.close()
    again, lease = lease_port(first)
    assert again == first
    lease.close()


def test_the_kernel_frees_the_lease_of_a_killed_process():
    """Another process holds the port until it is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, "18500"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    held = int(holder.stdout.readline())
    other, lease = lease_port(held)
    lease.close()
    holder.kill()
    holder.communicate()
    mine, lease = lease_port(held)
    lease.close()
    assert (other > held, mine) == (True, held)


def test_listening_pids(listener):
    """The listener is this process."""
    assert listening_pids(listener.getsockname()[1]) == {os.getpid()}


def test_no_free_port_is_an_error():
    """The last port, 65535, is in use, so there is no further one."""
    with (
        socket.create_server(("127.0.0.1", 65535)),
        pytest.raises(ReasonloopError, match=r"65535.*serve\.port"),
    ):
        lease_port(65535)
