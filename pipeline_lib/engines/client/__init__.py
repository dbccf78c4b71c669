"""Clients of engines: servers in this process, on this machine or at an address."""
