"""Mutation testing: the share of a seeded sample of mutants that the tests kill.

Mutated is every module of the library that computes; ``benchmarks/lib/mutant_targets.py`` lists the
few left out. A mutant is killed if a test fails with it that passes without it; a test that exceeds
``--test-timeout-s`` fails. Everything runs in a copy of the tree: first the unit tests that import the
module, then the others of its package by their distance in imports, then, for a module that no unit
test imports, whole runs. ``--bound-s`` bounds each of these steps, ``--files`` the first two: a mutant
that is alive at the end counts as a survivor.

Each result is written at once: run the same command to resume. The sample of n is a prefix of the
sample of n + 1, and each is spread over the packages in proportion to their lines.

    python -m benchmarks.mutants --seed 1 --number 150 --minutes 60 --output mutants.json
    python -m benchmarks.mutants --tree ../other-checkout --output other.json

Not mutmut (3.8) or cosmic-ray (8.7): neither samples by a seed or selects tests per module, and
mutmut selects the mutant by an environment variable, which the sandbox jails do not pass on.
"""

import argparse
import collections
import compileall
import json
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.mutant_operators import Mutant
from benchmarks.lib.mutant_targets import TestFiles, package_of, sample_order

ROOT = pathlib.Path(__file__).parents[1]
WHOLE_RUNS = "tests/flows/test_golden.py"
SYSTEMS = {"apr", "classmate", "pacore", "prr"}
"""Packages whose whole run is not ``reasonloop run``; the name is a part of its test's name."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of one mutant."""

    mutant: str
    noticed: bool
    by: str
    """The failed test, or its file; empty if the mutant survived."""
    seconds: float
    cut: bool = False
    """A survivor whose tests reached ``--bound-s``; more time might kill it."""


@dataclass(kw_only=True)
class Copy:
    """A copy of a tree in which mutants are tested one at a time."""

    root: pathlib.Path
    test_timeout_s: float
    bound_s: float
    most_files: int
    sound: dict[str, bool] = field(default_factory=dict)
    """Failed tests, with True if they pass without a mutant; the others are deselected."""
    files: TestFiles = field(init=False)
    cut: bool = False
    """The tests of the present mutant reached the bound."""

    def __post_init__(self) -> None:
        self.files = TestFiles(tree=self.root)

    def test(self, mutant: Mutant) -> Result:
        """Run the tests of a mutant's module until one kills it."""
        start = time.perf_counter()
        self.cut = False
        by = next(
            filter(None, (self._find_killer(mutant, t) for t in self._tests(mutant.path))), ""
        )
        seconds = round(time.perf_counter() - start, 1)
        cut = self.cut and not by
        return Result(mutant=str(mutant), noticed=bool(by), by=by, seconds=seconds, cut=cut)

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
        """Test files that import the module; then others near it; then a whole run."""
        near, far = self.files.near(module), self.files.far(module)
        package = package_of(module)
        run = ["-k", package if package in SYSTEMS else "test_run", WHOLE_RUNS]
        whole = [] if near else run
        yield from filter(None, (near[: self.most_files], far[: self.most_files], whole))

    def _failed(self, tests: list[str]) -> str | None:
        """The first test that fails, None if none does."""
        # Hypothesis would replay failures of another mutant.
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        options = ["-x", "-n", "0", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
        options += [f"--timeout={self.test_timeout_s}", f"--session-timeout={self.bound_s}"]
        options += [f"--deselect={test}" for test, sound in self.sound.items() if not sound]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root,
            env=_environment(self.root),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode in {0, 5}:  # all passed; none there
            return None
        if found := FAILED.search(done.stdout):
            return found[1]
        self.cut |= (bounded := "session-timeout" in done.stdout)
        return None if bounded else tests[0]


def _environment(root: pathlib.Path) -> dict[str, str]:
    """Of the tests: child processes in other folders must import the copy, too."""
    changed = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **changed}  # noqa: TID251 - for the child


def copy_tree(tree: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """Copy the files that git tracks, compiled."""
    # A jail's user must be able to read it, or tests that need a jail are skipped.
    to.chmod(0o755)
    command = ["git", "-C", str(tree), "ls-files", "-z"]
    tracked = subprocess.check_output(command, text=True)
    for name in tracked.rstrip("\0").split("\0"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, to / name)
    # By hash: a mutant of the same second and size would be loaded from the bytecode cache.
    by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(to, quiet=1, invalidation_mode=by_hash)
    return to


def report(results: list[Result], *, num_all: int, seed: int) -> dict[str, object]:
    """The content of the JSON file: totals, rates by package, then the outcome of each mutant."""
    return {
        "seed": seed,
        "mutants": num_all,
        **_count(results),
        "packages": {
            package: _count([one for one in results if package_of(one.mutant) == package])
            for package in sorted({package_of(one.mutant) for one in results})
        },
        "results": [asdict(result) for result in results],
    }


def _count(results: list[Result]) -> dict[str, float]:
    noticed = sum(result.noticed for result in results)
    return {
        "tried": len(results),
        "noticed": noticed,
        "kill_rate": round(noticed / len(results), 4),
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
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, help="the tested checkout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=150, help="size of the sample")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="start no mutant after this time"
    )
    parser.add_argument("--only", nargs="*", default=[""], help="substrings of module paths")
    parser.add_argument("--test-timeout-s", type=float, default=120.0)
    parser.add_argument("--bound-s", type=float, default=180.0, help="of one step of a mutant")
    parser.add_argument("--files", type=int, default=12, help="most test files of one step")
    parser.add_argument(
        "--output", type=pathlib.Path, required=True, help="write the results as JSON"
    )
    return parser.parse_args()


def main() -> None:
    """Test the sample, print the kill rates and the survivors, write JSON."""
    given = parse_arguments()
    start = time.perf_counter()
    every = sample_order(given.tree, seed=given.seed, only=given.only)
    results = read_results(given.output, num_all=len(every), seed=given.seed)
    done = {result.mutant for result in results}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(
            root=copy_tree(given.tree, pathlib.Path(folder)),
            test_timeout_s=given.test_timeout_s,
            bound_s=given.bound_s,
            most_files=given.files,
            sound={result.by: True for result in results if result.by},
        )
        for mutant in every[: given.number]:
            if str(mutant) in done:
                continue
            if time.perf_counter() - start > 60 * given.minutes:
                break
            results.append(copy.test(mutant))
            print("killed" if results[-1].noticed else "SURVIVED", mutant, flush=True)
            content = report(results, num_all=len(every), seed=given.seed)
            given.output.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print_rates(results, num_all=len(every))


def print_rates(results: list[Result], *, num_all: int) -> None:
    """Kill rates by package, then the survivors."""
    tried = collections.Counter(package_of(one.mutant) for one in results)
    killed = collections.Counter(package_of(one.mutant) for one in results if one.noticed)
    for package in sorted(tried):
        print(f"{package:14} {killed[package]:4} of {tried[package]:4} killed")
    print(f"{'all':14} {killed.total():4} of {tried.total():4} ({num_all} mutants); survivors:")
    for result in results:
        if not result.noticed:
            print(f"  {result.mutant}")


if __name__ == "__main__":
    main()
