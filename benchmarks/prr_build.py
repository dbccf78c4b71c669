"""Time and peak memory of building the ARC-AGI-1 data sets, by number of augmentations.

Each size is built in a fresh process. Memory is bounded if the peak does not grow with the files;
only a few integers per augmented version are kept.

    python -m benchmarks.prr_build ARC-AGI/data --augmentations 3 30 300 --output build.json
"""

import multiprocessing
import pathlib
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

from benchmarks.lib.command_line import add_output, make_parser, write_results
from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.arc_source import read_subset

SUBSETS = ("training", "evaluation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One build. Memory in MiB is that of the whole process, including libraries."""

    augmentations: int
    seconds: float
    before_mib: float
    peak_mib: float
    examples: int
    files_mib: float


def build(source: pathlib.Path, augmentations: int, folder: pathlib.Path) -> Built:
    """Build both subsets and measure it."""
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
    """Peak resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    """Build every size, print the table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "source",
        type=pathlib.Path,
        help="folder with the subsets training and evaluation, as for build-arc",
    )
    parser.add_argument("--augmentations", type=int, nargs="+", default=[3, 30, 300])
    add_output(parser)
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
    write_results(arguments.output, results)


if __name__ == "__main__":
    main()
