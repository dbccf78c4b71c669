"""Folders of a run below one root, and the lease that excludes a second run.

Data of round 1 is directly under ``data/``, data of later rounds under ``data/rounds/N``, so that each
folder is the output of exactly one DVC stage.
"""

import fcntl
import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.store.files import named_errors

SPLITS = ("bootstrap", "train", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFolders:
    """Sampled paths, their verdicts and the training data built from them."""

    paths: pathlib.Path
    verdicts: pathlib.Path
    traindata: pathlib.Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeFolders:
    """Paths of one independent draw or one search at test time, with verdicts, measures and costs."""

    paths: pathlib.Path
    verdicts: pathlib.Path
    measures: pathlib.Path
    """Answer of each path, and the certainty of the policy."""
    costs: pathlib.Path
    """Cost of a search by problem and budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrrFolders:
    """A data folder of TRM's format, the model trained on it, its control, and their evaluation."""

    data: pathlib.Path
    model: pathlib.Path
    control: pathlib.Path
    """The model with one branch, trained for as many core passes."""
    reports: pathlib.Path
    trackers: pathlib.Path
    """Files of experiment trackers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AprFolders:
    """Problems with traces, the models trained on them, and their evaluation."""

    data: pathlib.Path
    parallel: pathlib.Path
    serial: pathlib.Path
    parallel_rl: pathlib.Path
    """After reinforcement learning; empty without it."""
    serial_rl: pathlib.Path
    valid_reports: pathlib.Path
    """Evaluation of all conditions on the valid problems, and the chosen ones."""
    reports: pathlib.Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassmateFolders:
    """Problems, models and draws of Classmate, and their evaluation."""

    problems: pathlib.Path
    base: pathlib.Path
    """The actor at the start."""
    peers: pathlib.Path
    """A folder per peer that was made here."""
    trained: pathlib.Path
    """The actor, trained with peers."""
    plain: pathlib.Path
    """The actor, trained as long without peers."""
    draws: pathlib.Path
    """Prefixes, continuations and scores of the draws of the training."""
    evaluation: pathlib.Path
    reports: pathlib.Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PacoreFolders:
    """Judged paths of a policy, the models trained on them, and their evaluation."""

    messages: pathlib.Path
    base: pathlib.Path
    """The policy as a chat model."""
    model: pathlib.Path
    """The synthesizer."""
    control: pathlib.Path
    """The base trained on plain prompts for as many steps."""
    reports: pathlib.Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held lock of a workspace."""

    path: pathlib.Path
    descriptor: int

    def is_lost(self) -> bool:
        """True if the locked file is no longer at its path: the workspace was removed or unmounted."""
        try:
            held = os.fstat(self.descriptor)
            return not os.path.samestat(self.path.stat(), held)
        except FileNotFoundError:
            return True
        except OSError:  # released, or a broken disk, which the next write reports
            return False


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths below ``root``. Two runs with different roots share no file.

    Raises:
        BadInputError: the path is not UTF-8, as params, records and reports of a run need it.
    """

    root: pathlib.Path

    def __post_init__(self) -> None:
        try:
            str(self.root).encode()
        except UnicodeEncodeError:
            raise BadInputError(
                f"{str(self.root)!a}: the name is not UTF-8; rename the folder, or give another one"
            ) from None

    def problems(self, split: str) -> pathlib.Path:
        """Table of one of the SPLITS."""
        return self.root / "data" / "problems" / split

    @property
    def problems_report(self) -> pathlib.Path:
        """Counts of the splits and the overlap report."""
        return self.root / "data" / "problems" / "report.json"

    def round_folders(self, round_number: int) -> RoundFolders:
        """Data of round 1, 2, ..."""
        data = self.root / "data"
        base = data if round_number == 1 else data / "rounds" / str(round_number)
        return RoundFolders(
            paths=base / "paths", verdicts=base / "verdicts", traindata=base / "traindata"
        )

    @property
    def later_rounds(self) -> tuple[pathlib.Path, pathlib.Path]:
        """Data of the rounds after the first, policies of the rounds before the last."""
        return self.root / "data" / "rounds", self.root / "models" / "rounds"

    def evaluation(self, policy: str) -> RoundFolders:
        """Evaluation data of "base", "control" or "trained" (it has no traindata)."""
        base = self.root / "data" / "evaluation" / policy
        return RoundFolders(
            paths=base / "paths", verdicts=base / "verdicts", traindata=base / "none"
        )

    def compute(self, policy: str, part: str) -> ComputeFolders:
        """Test-time data of "base" or "trained": the independent draw, or one search."""
        base = self.root / "data" / "compute" / policy / part
        return ComputeFolders(
            paths=base / "paths",
            verdicts=base / "verdicts",
            measures=base / "measures",
            costs=base / "costs",
        )

    def compute_result(self, policy: str) -> pathlib.Path:
        """The curves of one policy."""
        return self.root / "data" / "compute" / policy / "result"

    @property
    def base(self) -> pathlib.Path:
        """The base policy, from which the loop starts."""
        return self.root / "models" / "base"

    @property
    def control(self) -> pathlib.Path:
        """The base trained on worked solutions alone; without any, only a report."""
        return self.root / "models" / "control"

    def policy(self, round_number: int, *, rounds: int) -> pathlib.Path:
        """The policy after round ``round_number``; the last one is ``models/policy``."""
        last = round_number == rounds
        models = self.root / "models"
        return models / "policy" if last else models / "rounds" / str(round_number)

    @property
    def releases(self) -> pathlib.Path:
        """Released policies; no stage writes them."""
        return self.root / "models" / "released"

    def trackers(self, training: str) -> pathlib.Path:
        """Files of experiment trackers of a training: "round-1", "control"."""
        return self.root / "logs" / "trackers" / training

    @property
    def reports(self) -> pathlib.Path:
        """metrics.json, summary.json, plots/, report.html."""
        return self.root / "reports"

    @property
    def metrics(self) -> pathlib.Path:
        """Metrics of the last evaluation."""
        return self.reports / "metrics.json"

    @property
    def evaluation_result(self) -> pathlib.Path:
        """Result of the evaluate stage, without seconds, so it is reproducible."""
        return self.root / "data" / "evaluation" / "result"

    @property
    def prr(self) -> PrrFolders:
        """Folders of parallel latent branches (PRR)."""
        return PrrFolders(
            data=self.root / "data" / "prr" / "puzzles",
            model=self.root / "models" / "prr",
            control=self.root / "models" / "prr-control",
            reports=self.root / "reports" / "prr",
            trackers=self.root / "logs" / "trackers" / "prr",
        )

    @property
    def apr(self) -> AprFolders:
        """Folders of adaptive parallel reasoning (APR)."""
        return AprFolders(
            data=self.root / "data" / "apr",
            parallel=self.root / "models" / "apr-parallel",
            serial=self.root / "models" / "apr-serial",
            parallel_rl=self.root / "models" / "apr-parallel-rl",
            serial_rl=self.root / "models" / "apr-serial-rl",
            valid_reports=self.root / "reports" / "apr-valid",
            reports=self.root / "reports" / "apr",
        )

    @property
    def classmate(self) -> ClassmateFolders:
        """Folders of Classmate."""
        data, models = self.root / "data" / "classmate", self.root / "models" / "classmate"
        return ClassmateFolders(
            problems=data / "problems",
            base=models / "base",
            peers=models / "peers",
            trained=models / "trained",
            plain=models / "plain",
            draws=data / "draws",
            evaluation=data / "evaluation",
            reports=self.reports / "classmate",
        )

    @property
    def pacore(self) -> PacoreFolders:
        """Folders of PaCoRe."""
        return PacoreFolders(
            messages=self.root / "data" / "pacore" / "messages",
            base=self.root / "models" / "pacore-base",
            model=self.root / "models" / "pacore",
            control=self.root / "models" / "pacore-control",
            reports=self.root / "reports" / "pacore",
        )

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Lock the workspace for one writer.

        The kernel releases the lock with the open file, so a killed holder leaves no stale lock.

        Raises:
            ReasonloopError: another process holds the lock; the message gives its process id.
        """
        path = self.root / "telemetry" / "lease"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                stream.seek(0)
                raise ReasonloopError(
                    f"{self.root}: in use by process {stream.read().strip() or 'unknown'}; "
                    "wait for it, or pass another --workspace"
                ) from error
            with named_errors(path):
                os.ftruncate(stream.fileno(), 0)
                os.write(stream.fileno(), str(os.getpid()).encode())
            yield Lease(path=path, descriptor=stream.fileno())
