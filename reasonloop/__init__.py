"""Public names of reasonloop: verified reasoning paths, from problems to verdicts."""

from importlib.metadata import version

from pipeline_lib.records import Path, Problem
from pipeline_lib.verdicts import Verdict

__all__ = ["Path", "Problem", "Verdict", "__version__"]
__version__ = version("reasonloop")
