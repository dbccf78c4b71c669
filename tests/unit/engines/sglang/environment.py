"""An engine environment for ``serve.environment`` whose package ``sglang`` is the simulated server."""

import pathlib
import subprocess
import sys
import sysconfig

from benchmarks.lib.repository import REPOSITORY

PACKAGES = pathlib.Path(__file__).with_name("packages")


def make_environment(folder: pathlib.Path) -> pathlib.Path:
    """Make a virtual environment that imports this one's packages, this repository and the simulated SGLang."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = (folder / "lib").glob("python*/site-packages")
    paths = (PACKAGES, REPOSITORY, pathlib.Path(sysconfig.get_path("purelib")))
    (packages / "sglang.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return folder
