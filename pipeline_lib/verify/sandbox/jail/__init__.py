"""Processes inside the jail, and the kernel's means of isolating them."""
