"""Supervised training of a model of threads: a small Llama from scratch on the traces of one kind."""

import pathlib
import time

from transformers import PreTrainedTokenizerFast

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprModelParams, AprParams, AprSftParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.apr.countdown.data_folder import (
    check_data,
    problem_file,
    read_problems,
    read_settings,
)
from pipeline_lib.systems.apr.countdown.sequences import Kind
from pipeline_lib.systems.apr.countdown.tokens import EOS, PAD, make_tokenizer
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord
from pipeline_lib.systems.apr.trace_rows import EncodedTraces, encode_traces
from pipeline_lib.train.bootstrap import LlamaSizes, save_blank_llama
from pipeline_lib.train.offline.bucketed_sft import TokenSteps, plan_steps, trainer_factory
from pipeline_lib.train.phases import Phase, Progress, Schedule, TrainContext
from pipeline_lib.train.sequence import finished_training, run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights import policies

_PHASE = "sft"


def train_on_traces(  # noqa: PLR0913 - what a training depends on
    data: pathlib.Path,
    kind: Kind,
    output: pathlib.Path,
    params: AprParams,
    *,
    seed: int,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    trackers: Trackers | None = None,
    replaces: bool = False,
) -> Manifest:
    """Train on the traces in ``data``, or resume an interrupted training; a finished one is reused.

    After ``max_seconds`` the training stops behind a checkpoint. With ``replaces`` the model of another training in
    ``output`` is replaced, not refused.

    Raises:
        BudgetReachedError: the time limit was reached; the same call resumes.
        BadInputError: there is no finished data, the window is too small for it, or ``output`` holds
            something else.
    """
    start = time.perf_counter()
    check_output_folder(output, kind=policies.KIND)
    manifest = check_data(data)
    chosen = params.model_dump(mode="json", include={"model", "sft"})
    key = stage_key(
        __name__, params={**chosen, "kind": kind, "seed": seed}, inputs={"data": manifest.digest}
    )
    finished = finished_training(output, key=key, replaces=replaces)
    if finished is not None:
        return finished
    settings = read_settings(data).data
    num_numbers = settings.countdown.num_numbers
    traces = encode_traces(
        data,
        kind,
        params.sft,
        num_numbers=num_numbers,
        window=params.model.window,
        seed=seed,
    )
    phase = make_phase(traces, params.sft, seed=seed)
    record = ThreadModelRecord(
        kind=kind,
        style=settings.style,
        num_numbers=num_numbers,
        window=params.model.window,
        conditions=traces.conditions,
        data=manifest.digest,
        sequences=len(traces.rows),
        dropped=traces.dropped,
    )
    context = TrainContext(
        work=work_folder(output, key),
        key=key,
        seed=seed,
        threads=params.sft.threads,
        progress=progress,
        trackers=trackers,
        problems=read_problems(problem_file(data, "train")),
        deadline=None if max_seconds is None else start + max_seconds,
    )
    blank = context.work / "blank"
    make_blank(blank, params.model, num_numbers=num_numbers, seed=seed, threads=params.sft.threads)
    return run_phases(
        [phase],
        str(blank),
        output,
        context=context,
        records={RECORD_NAME: record.model_dump(mode="json")},
    )


def make_blank(
    folder: pathlib.Path, model: AprModelParams, *, num_numbers: int, seed: int, threads: int
) -> None:
    """Save a model with random weights and the tokenizer for problems of ``num_numbers`` numbers."""
    sizes = LlamaSizes(
        hidden_size=model.hidden_size,
        feed_forward_size=model.feed_forward_size,
        num_layers=model.num_layers,
        num_heads=model.num_heads,
        context_tokens=model.window,
    )
    weights_seed = trainer_seed(seed, "adaptive", "weights")
    with silence_libraries(), deterministic(threads=threads, seed=weights_seed):
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=make_tokenizer(num_numbers),
            pad_token=PAD,
            eos_token=EOS,
            clean_up_tokenization_spaces=False,
        )
        save_blank_llama(folder, tokenizer, sizes)


def plan_of(traces: EncodedTraces, sft: AprSftParams, *, seed: int) -> TokenSteps:
    """The steps of a training on ``traces``.

    Raises:
        BadInputError: a step does not hold the longest sequence.
    """
    lengths = [len(row.ids_L) for row in traces.rows]
    if max(lengths) > sft.step_tokens:
        raise BadInputError(
            f"apr.sft.step_tokens={sft.step_tokens}: the longest sequence has {max(lengths)} "
            "tokens; raise it"
        )
    return plan_steps(
        lengths, tokens=sft.tokens, step_tokens=sft.step_tokens, seed=child_seed(seed, "sft order")
    )


def make_phase(traces: EncodedTraces, sft: AprSftParams, *, seed: int) -> Phase:
    """The phase that trains on ``traces``; errors as of :func:`plan_of`."""
    plan = plan_of(traces, sft, seed=seed)
    return Phase(
        name=_PHASE,
        schedule=Schedule(
            steps=len(plan.steps),
            lr=sft.lr,
            batch_size=1,
            micro_batch_size=1,
            shape="cosine",
            warmup_fraction=sft.warmup_fraction,
            checkpoint_every=sft.checkpoint_every,
            gradient_checkpointing=False,
        ),
        make_trainer=trainer_factory(traces.rows, plan, sft),
    )
