"""Mutation testing: the share of a seeded sample of mutants that the tests kill.

Mutated are modules in which an error would falsify results without a crash. A mutant is killed if
a test fails with it that passes without it; a test that exceeds ``--test-timeout-s`` fails.
Everything runs in a copy of the tree: first the tests that import the module, then the others of
its package, until one fails.

Each result is written at once: run the same command to resume. The sample of n is a prefix of the
sample of n + 1.

    python -m benchmarks.mutants --seed 1 --number 100 --minutes 60 --output mutants.json

Not mutmut (3.8) or cosmic-ray (8.7): neither samples by a seed or selects tests per module, and
mutmut selects the mutant by an environment variable, which the sandbox jails do not pass on.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.mutant_operators import Mutant, find_mutants

ROOT = pathlib.Path(__file__).parents[1]
# Mutated modules, and the folders whose tests must kill the mutants. Left out: modules that only
# plot, print or build models for tests.
TARGETS = {
    "grids.py": ["problems", "verification", "latent", "test_grids.py"],
    "records.py": ["test_records.py", "traindata", "evaluation"],
    "seeding.py": ["test_seeding.py", "sampling"],
    "determinism.py": ["test_determinism.py"],
    "verification": ["verification"],
    "evaluation": ["evaluation"],
    "traindata": ["traindata"],
    "sampling": ["sampling"],
    "training": ["training"],
    "latent": ["latent"],
    "storage": ["storage"],
    "serving/decoding/decode_pass.py": ["serving"],
    "serving/decoding/sampler.py": ["serving"],
}
LATENT = {
    "arc_votes",
    "grid_voting",
    "losses",
    "branches",
    "restarts",
    "branch_metrics",
    "evaluate",
    "numerics",
}
"""Modules of ``latent`` that count votes and compute losses; the others are mostly covered by
tests of whole runs."""
LEFT_OUT = {
    "verification/sandbox/docker.py",  # its tests need docker
    "verification/version.py",
    "traindata/card.py",
    "training/export.py",
    "training/tracking.py",
    "evaluation/curves/inputs.py",
}
COPIED = ("pipeline_lib", "flows", "tasks", "tests", "profiles", "benchmarks", "docs")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of one mutant."""

    mutant: str
    noticed: bool
    by: str
    """The failed test, or its file; empty if the mutant survived."""
    seconds: float


@dataclass(kw_only=True)
class Copy:
    """A copy of the tree in which mutants are tested one at a time."""

    root: pathlib.Path
    test_timeout_s: float
    sound: dict[str, bool] = field(default_factory=dict)
    """Failed tests, with True if they pass without a mutant; the others are deselected."""

    def test(self, mutant: Mutant) -> Result:
        """Run the tests of a mutant's module until one kills it."""
        start = time.perf_counter()
        by = next(
            filter(None, (self._find_killer(mutant, t) for t in self._tests(mutant.path))), ""
        )
        seconds = round(time.perf_counter() - start, 1)
        return Result(mutant=str(mutant), noticed=bool(by), by=by, seconds=seconds)

    def _find_killer(self, mutant: Mutant, tests: list[str]) -> str | None:
        """The first of these tests that fails with the mutant and passes without."""
        path = self.root / mutant.path
        original = path.read_text("utf-8")
        while True:
            path.write_text(mutant.apply(original), "utf-8")
            failed = self._failed(tests)
            path.write_text(original, "utf-8")
            if failed is None:
                return None
            if failed not in self.sound:
                self.sound[failed] = self._failed([failed]) is None
                if not self.sound[failed]:
                    print("fails without a mutant, too:", failed, flush=True)
            if self.sound[failed]:
                return failed

    def _tests(self, module: str) -> Iterator[list[str]]:
        """Test files that name the module, then all others of its package."""
        inside = module.removeprefix("pipeline_lib/")
        folders = next(names for start, names in TARGETS.items() if inside.startswith(start))
        paths = [self.root / "tests" / "unit" / name for name in folders]
        files = sorted(
            set(itertools.chain(*([p] if p.is_file() else p.rglob("test_*.py") for p in paths)))
        )
        dotted = module.removesuffix(".py").replace("/", ".")
        near = [one for one in files if _names(one.read_text("utf-8"), dotted)]
        far = [one for one in files if one not in near]
        for chosen in (near, far):
            if chosen:
                yield [str(one.relative_to(self.root)) for one in chosen]

    def _failed(self, tests: list[str]) -> str | None:
        """The first test that fails, None if none does."""
        # A mutant of the same second and size would be loaded from the bytecode cache, and
        # hypothesis would replay failures of another mutant.
        for cache in [*self.root.rglob("__pycache__"), self.root / ".hypothesis"]:
            shutil.rmtree(cache, ignore_errors=True)
        options = ["-x", "-n", "0", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
        options += [f"--deselect={test}" for test, sound in self.sound.items() if not sound]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"--timeout={self.test_timeout_s}", *tests],
            cwd=self.root,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # noqa: TID251 - for the child
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode in {0, 5}:  # all passed; none there
            return None
        found = FAILED.search(done.stdout)
        return found[1] if found else tests[0]


def _names(text: str, dotted: str) -> bool:
    """True if the text of a test file imports the module."""
    package, _, name = dotted.rpartition(".")
    return dotted in text or bool(
        re.search(rf"from {re.escape(package)} import .*\b{name}\b", text)
    )


def copy_tree(to: pathlib.Path) -> pathlib.Path:
    """Copy the files that tests need."""
    # A jail's user must be able to read it, or tests that need a jail are skipped.
    to.chmod(0o755)
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, to / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, to / path.name)
    return to


def list_mutants() -> list[Mutant]:
    """Mutants of all target modules, in a fixed order."""
    found = []
    for start in TARGETS:
        place = ROOT / "pipeline_lib" / start
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            inside = path.relative_to(ROOT / "pipeline_lib").as_posix()
            if inside in LEFT_OUT or (start == "latent" and path.stem not in LATENT):
                continue
            found += find_mutants(path.read_text("utf-8"), f"pipeline_lib/{inside}")
    return found


def report(results: list[Result], *, num_all: int, seed: int) -> dict[str, object]:
    """The content of the JSON file: totals, then the outcome of each mutant."""
    noticed = sum(result.noticed for result in results)
    return {
        "seed": seed,
        "mutants": num_all,
        "tried": len(results),
        "noticed": noticed,
        "kill_rate": round(noticed / len(results), 4) if results else None,
        "results": [asdict(result) for result in results],
    }


def read_results(output: pathlib.Path, *, num_all: int, seed: int) -> list[Result]:
    """Results of an earlier run with the same seed and the same number of mutants."""
    if not output.exists():
        return []
    earlier = json.loads(output.read_text("utf-8"))
    if (earlier["seed"], earlier["mutants"]) != (seed, num_all):
        return []
    return [Result(**result) for result in earlier["results"]]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=100, help="size of the sample")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="start no mutant after this time"
    )
    parser.add_argument("--only", nargs="*", default=[""], help="substrings of module paths")
    parser.add_argument("--test-timeout-s", type=float, default=120.0)
    parser.add_argument(
        "--output", type=pathlib.Path, required=True, help="write the results as JSON"
    )
    return parser.parse_args()


def main() -> None:
    """Test the sample, print the kill rate and the survivors, write JSON."""
    given = parse_arguments()
    start = time.perf_counter()
    every = [one for one in list_mutants() if any(part in one.path for part in given.only)]
    random.Random(given.seed).shuffle(every)
    results = read_results(given.output, num_all=len(every), seed=given.seed)
    done = {result.mutant for result in results}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(root=copy_tree(pathlib.Path(folder)), test_timeout_s=given.test_timeout_s)
        for mutant in every[: given.number]:
            if str(mutant) in done:
                continue
            if time.perf_counter() - start > 60 * given.minutes:
                break
            results.append(copy.test(mutant))
            print("killed" if results[-1].noticed else "SURVIVED", mutant, flush=True)
            content = report(results, num_all=len(every), seed=given.seed)
            given.output.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    num_killed = sum(result.noticed for result in results)
    print(f"\n{num_killed} of {len(results)} killed ({len(every)} mutants in all); survivors:")
    for result in results:
        if not result.noticed:
            print(f"  {result.mutant}")


if __name__ == "__main__":
    main()
