"""A model from scratch that learns paths and syntheses at once, from tries of the parts of each problem.

The problems of a task have them in a column: for each part all choices, with what follows from each, whether it is
right or not. A plain path has one try for each part. Each step of the training has plain paths and syntheses of one
number of references, so each number has as many tokens.
"""

import itertools
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import fmean

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.engines.chat_model import ChatFormat, Conversation
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import chat_format_of, load_tokenizer
from pipeline_lib.engines.tokens import COMPACT_TEMPLATE
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.pacore import ScratchParams
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.params_file import on_task
from pipeline_lib.problems.tries import Tries, Try, text_of, tries_of, until_right
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import conversation, render
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.seeding import child_random
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder, record_unit
from pipeline_lib.systems.pacore.solution import compact_synthesis, synthesis_prompt
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder
from pipeline_lib.train.bootstrap import make_word_tokenizer, save_blank_llama
from pipeline_lib.train.offline.bucketed_sft import TokenRow, TokenSteps, encode_rows, token_phase
from pipeline_lib.train.phases import TrainContext
from pipeline_lib.train.sequence import run_phases
from pipeline_lib.train.tracking.trackers import trackers_beside
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights import policies

_KIND = "pacore-problems"
_SAMPLE = 300


def on_own_task(run: Run) -> Run:
    """The same run on the task of a model from scratch, if there is one."""
    scratch = run.params.pacore.scratch
    if run.params.pacore.start != "scratch":
        return run
    prepare = PrepareParams(
        dataset=scratch.task,
        train_problems=scratch.train_problems,
        test_problems=scratch.test_problems,
        bootstrap_problems=0,
    )
    return run.model_copy(update={"params": on_task(run.params, prepare)})


def has_retries(run: Run) -> bool:
    """A policy that retries is trained and compared with."""
    return run.params.pacore.start == "scratch" and run.params.pacore.scratch.retries


def make_data(run: Run) -> None:
    """Write the problems, and a model with random weights that has a token for each of their words."""
    folders, seed, prepare = run.workspace.pacore, run.params.seed, on_own_task(run).params.prepare
    key = stage_key(__name__, params={**prepare.model_dump(mode="json"), "seed": seed}, inputs={})
    tables = {split: folders.problems / split for split in ("train", "test")}
    if not all(manifests.current(table, kind=_KIND, key=key) for table in tables.values()):
        with record_unit(Unit(workspace=run.root, stage="pacore-data", key=key)):
            splits = checked_splits(prepare, seed=seed)
            for split, table in tables.items():
                rows = [one.row() for one in getattr(splits, split)]
                shards.write_table(table, rows, kind=_KIND, key=key)
    llama = run.params.pacore.scratch.llama.model_dump(mode="json")
    key = stage_key(__name__, params={**llama, "seed": seed}, inputs={"problems": key})
    unit = Unit(workspace=run.root, stage="pacore-data", key=key, label="pacore-base")
    make_folder(unit, folders.base, kind=policies.KIND, fill=partial(_write_blank, run))


def _write_blank(run: Run, folder: pathlib.Path) -> None:
    problems = _tried_problems(run)
    words = itertools.chain(
        (render(problem, None) for problem, _ in problems),
        (text_of(part) for _, tries in problems for part in tries),
        [compact_synthesis("", [""])],
    )
    tokenizer = make_word_tokenizer(words)
    tokenizer.chat_template = COMPACT_TEMPLATE
    seed = trainer_seed(run.params.seed, "pacore", "weights")
    with silence_libraries(), deterministic(threads=1, seed=seed):
        llama = run.params.pacore.scratch.llama
        save_blank_llama(
            folder,
            tokenizer,
            hidden_size=llama.hidden_size,
            intermediate_size=llama.intermediate_size,
            num_hidden_layers=llama.num_hidden_layers,
            num_attention_heads=llama.num_attention_heads,
            max_position_embeddings=llama.max_position_embeddings,
            initializer_range=llama.initializer_range,
            tie_word_embeddings=False,
        )


def _tried_problems(run: Run) -> list[tuple[Problem, Tries]]:
    """The train problems with their tries; BadInputError: one has none, or a part without a right one."""
    found = []
    for row in shards.iter_table(run.workspace.pacore.problems / "train"):
        problem = Problem.from_row(row)
        found.append((problem, tries_of(problem, where=run.params.pacore.scratch.task)))
    return found


def train(
    run: Run, output: pathlib.Path, params: ScratchParams, *, stage: str, retries: bool = False
) -> None:
    """Train the blank model by ``params``; an interrupted training of the same key resumes.

    With ``retries`` plain paths try choices of a part in random order until one is right.

    Raises:
        BadInputError: the context does not hold the references, or the problems have no tries.
    """
    base, seed = str(run.workspace.pacore.base), run.params.seed
    key = stage_key(
        __name__,
        params={
            **params.model_dump(mode="json", exclude={"retries"}),
            "seed": seed,
            "of_retries": retries,
        },
        inputs={"base": model_identity(base)},
    )
    if manifests.current(output, kind=policies.KIND, key=key) is not None:
        return
    tokenizer, problems = load_tokenizer(base), _tried_problems(run)
    chat_format = chat_format_of(tokenizer)
    assert chat_format is not None
    made = _Rows(
        problems=problems, params=params, chat_format=chat_format, seed=seed, retries=retries
    )
    rows: list[TokenRow] = []
    steps: list[range] = []
    for step in made.steps(lambda some: [len(one.ids_L) for one in encode_rows(some, tokenizer)]):
        steps.append(range(len(rows), len(rows) + len(step)))
        rows += encode_rows(step, tokenizer)
    lengths = [len(one.ids_L) for one in rows]
    if max(lengths) > params.llama.max_position_embeddings:
        raise BadInputError(
            f"pacore.scratch.llama.max_position_embeddings={params.llama.max_position_embeddings}: a row has "
            f"{max(lengths)} tokens; raise it, or lower pacore.scratch.references"
        )
    context = TrainContext(
        work=work_folder(output, key),
        key=key,
        seed=seed,
        threads=params.sft.threads,
        progress=step_recorder(run.root, stage),
        trackers=trackers_beside(output, run.params.execution),
        problems=[problem for problem, _ in problems],
    )
    plan = TokenSteps(steps=steps, tokens=sum(lengths))
    run_phases([token_phase("scratch", rows, plan, params.sft)], base, output, context=context)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows {prompt, completion, weights} of a training."""

    problems: Sequence[tuple[Problem, Tries]]
    params: ScratchParams
    chat_format: ChatFormat
    seed: int
    retries: bool

    @cached_property
    def _asked(self) -> list[tuple[Conversation, str, Tries]]:
        """Of each problem its messages, the prompt of a plain path, and its tries."""
        found: list[tuple[Conversation, str, Tries]] = []
        for problem, tries in self.problems:
            messages = conversation(problem, self.chat_format)
            found.append((messages, self.chat_format.render(messages), tries))
        return found

    def steps(self, lengths_of: Callable[[Sequence[Row]], list[int]]) -> Iterator[list[Row]]:
        """The rows of each step; all of one number of references count as the first of them, by ``lengths_of``.

        Those that retry count as the mean of several.
        """
        params, draw = self.params, child_random(self.seed, "pacore-scratch")
        step_tokens, done = params.sft.step_tokens, 0.0
        numbers = sorted({0, *params.references, *params.first_references})
        sample = _SAMPLE if self.retries else 1
        lengths = {
            number: fmean(lengths_of([self._row(draw, number) for _ in range(sample)]))
            for number in numbers
        }
        while done < params.sft.tokens:
            is_first = done < params.first_share * params.sft.tokens
            number = draw.choice(params.first_references if is_first else params.references)
            wanted = {0: params.paths, number: 1 - params.paths}
            counts = {
                one: max(1, round(share * step_tokens / lengths[one]))
                for one, share in wanted.items()
                if share
            }
            yield [self._row(draw, one) for one, count in counts.items() for _ in range(count)]
            done += sum(count * lengths[one] for one, count in counts.items())

    def _row(self, draw: random.Random, number: int) -> Row:
        """A plain path, or a synthesis of a ``number`` of references."""
        asked, prompt, tries = draw.choice(self._asked)
        rate = draw.uniform(self.params.hits_low, self.params.hits_high)
        references = [
            [_pick(draw, part, is_right=draw.random() < rate) for part in tries]
            for _ in range(number)
        ]
        if self.retries:
            target = [one for part in tries for one in until_right(draw, part)]
        elif references or draw.random() < self.params.solved:
            seen = zip(*references, strict=True) if references else tries
            right = ([one for one in part if one[2]] for part in seen)
            target = [
                draw.choice(own) if own else _pick(draw, part, is_right=True)
                for own, part in zip(right, tries, strict=True)
            ]
        else:
            target = [draw.choice(part) for part in tries]
        if references:
            shown = [(place, text_of(one)) for place, one in enumerate(references)]
            messages = synthesis_prompt(asked, shown, self.chat_format)
            prompt = self.chat_format.render(messages)
        return {
            "prompt": prompt,
            "completion": text_of(target),
            "weights": self._weights(draw, prompt, references),
        }

    def _weights(
        self, draw: random.Random, prompt: str, references: Sequence[Sequence[Try]]
    ) -> list[tuple[int, int, int]]:
        """Of what follows from the choices of some references."""
        most = min(self.params.weighted_references, len(references))
        weighted = {*draw.sample(range(len(references)), most)}
        found, behind = [], 0
        for place, tries in enumerate(references):
            behind = prompt.index(text_of(tries), behind) - 1
            for choice, rest, _ in tries:
                first = behind + len(choice) + 2
                behind = first + len(rest)
                if place in weighted:
                    found.append((first, behind, 1))
        return found


def _pick(draw: random.Random, part: Sequence[Try], *, is_right: bool) -> Try:
    return draw.choice([one for one in part if one[2] is is_right] or part)
