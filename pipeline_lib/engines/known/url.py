"""A server that already runs at ``serve.url``: used as it is, never started or stopped."""

from pipeline_lib.engines.known.engine import Engine

URL = Engine(name="url", launch=None, dialect=None, adapter_routes=None)
