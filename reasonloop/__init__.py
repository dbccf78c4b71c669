"""Public names of reasonloop: verified reasoning paths, from problems to verdicts."""

import pathlib
import sys
from importlib.metadata import version

# Prefect imports flows with the current folder first, which may have a package of this name.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from pipeline_lib.records import Path, Problem
from pipeline_lib.verdicts import Verdict

del sys.path[0]

__all__ = ["Path", "Problem", "Verdict", "__version__"]
__version__ = version("reasonloop")
