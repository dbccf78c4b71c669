"""The library of reasonloop: no orchestrator, no cluster, no data versioning."""

import os

# Of cuBLAS, which reads it once, when CUDA starts: deterministic sums. Here, since every process of ours
# imports this package before it uses torch, and hands its environment to what it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
