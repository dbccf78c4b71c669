"""Time and peak memory of building ARC-AGI-1's training and evaluation sets, by number of versions.

Each size is built in a process of its own. Memory is bounded if the peak stays where it is while the
files grow; only a few integers of each version are kept.

    python benchmarks/prr_build.py ARC-AGI/data --augmentations 3 30 300 --output build.json
"""

import argparse
import json
import multiprocessing
import pathlib
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

from pipeline_lib.latent.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.latent.data.arc_source import read_subset

SUBSETS = ("training", "evaluation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One build. Memory in MiB is that of the whole process, libraries included."""

    augmentations: int
    seconds: float
    before_mib: float
    peak_mib: float
    examples: int
    files_mib: float


def build(source: pathlib.Path, augmentations: int, folder: pathlib.Path) -> Built:
    subsets = [read_subset(source, name) for name in SUBSETS]
    before = peak_mib()
    output = folder / str(augmentations)
    start = time.perf_counter()
    manifest = build_arc(subsets, ArcOptions(test_set=SUBSETS[-1], num_aug=augmentations), output)
    return Built(
        augmentations=augmentations,
        seconds=time.perf_counter() - start,
        before_mib=before,
        peak_mib=peak_mib(),
        examples=int(manifest.counts["train_examples"] + manifest.counts["test_examples"]),
        files_mib=sum(entry.bytes for entry in manifest.files.values()) / 2**20,
    )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source",
        type=pathlib.Path,
        help="as of build-arc: holds the folders training and evaluation",
    )
    parser.add_argument("--augmentations", type=int, nargs="+", default=[3, 30, 300])
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON")
    arguments = parser.parse_args()
    print(
        f"{'versions':>8}{'seconds':>9}{'before MiB':>12}{'peak MiB':>10}{'examples':>11}{'files MiB':>11}"
    )
    results = []
    for augmentations in arguments.augmentations:
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        ):
            built = pool.submit(
                build, arguments.source, augmentations, pathlib.Path(folder)
            ).result()
        print(
            f"{built.augmentations:>8}{built.seconds:>9.1f}{built.before_mib:>12.0f}"
            f"{built.peak_mib:>10.0f}{built.examples:>11}{built.files_mib:>11.0f}"
        )
        results.append(asdict(built))
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
