"""`reasonloop pacore solve`, `batch`, `consensus` and `weights`."""

import itertools
import json
import pathlib
import time
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    EngineLogs,
    LinesFile,
    Model,
    ParamsOptions,
)
from flows.cli.pacore.cluster import (
    DEFAULT_ANSWER,
    DEFAULT_WORKERS,
    AnswerOptions,
    WorkerOptions,
    opened_engine,
)
from flows.cli.pacore.queue import hand_over
from flows.cli.progress import progress_bar
from flows.run.terminal import say
from pipeline_lib.engines.chat_model import Message
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.systems.pacore.batch import SolvedFile, solve_file
from pipeline_lib.systems.pacore.consensus import (
    Method,
    consensus_of_file,
    elect_path,
    weights_by_accuracy,
)
from pipeline_lib.systems.pacore.drive import solve_all
from pipeline_lib.systems.pacore.rounds import OnRound
from pipeline_lib.systems.pacore.settings import check_lengths, open_setting
from pipeline_lib.systems.pacore.solution import Question, Round, Solution
from pipeline_lib.terminal_text import one_line

_MESSAGE_CHARACTERS = 100
RoundNumber = Annotated[
    int, Parameter(name="--round", help="Round of `pacore batch`, from 1.", validator=AT_LEAST_ONE)
]


def solve(
    model: Model,
    question: Annotated[str, Parameter(help="The question, as the user would ask it.")],
    /,
    *,
    workspace: EngineLogs = DEFAULT_RUN.workspace,
    workers: WorkerOptions = DEFAULT_WORKERS,
    params: AnswerOptions = DEFAULT_ANSWER,
) -> None:
    """Answer one question by rounds of parallel paths, each with the last round's messages as references.

    **Examples:**

        reasonloop pacore solve models/smollm2 "Tom has 3 bags of 12 marbles. How many marbles are there?"
        reasonloop pacore solve models/smollm2 "..." --set pacore.widths=[32,4] --set pacore.compaction=answer
        reasonloop pacore solve NAME "..." --engine url --set serve.url=http://host:8000/v1
        reasonloop pacore solve models/smollm2 "..." --master 127.0.0.1:6400
    """
    workers.check(engine=params.engine)
    loaded = params.load()
    asked = Question(id="question", conversation=[Message.user(question)])
    with (
        opened_engine(model, loaded, workers, log_folder=workspace.resolve() / "logs") as drawing,
        open_setting(
            drawing, loaded.pacore, loaded.verify, seed=loaded.seed, elect=elect_path
        ) as setting,
    ):
        check_lengths([asked], setting)
        found: list[Solution] = []
        solve_all(
            drawing,
            [asked],
            setting,
            together=1,
            on_solved=found.append,
            on_round=_round_printer(len(setting.plan)),
        )
    answer, cost = found[0].answers[0], found[0].cost
    if answer.error:
        raise ReasonloopError(f"the last call failed: {answer.error}")
    say(f"\n{answer.text}\n")
    say(
        f"{cost.calls} calls, {cost.failed_calls} failed; {cost.prompt_tokens} prompt and "
        f"{cost.completion_tokens} drawn tokens, {cost.critical_tokens} in sequence"
    )
    if answer.finish_reason.value == "length":
        say(f"the answer was cut off at pacore.max_new_tokens={setting.decoding.max_new_tokens}")


def _round_printer(num_rounds: int) -> OnRound:
    """Prints each round with the messages of its paths."""
    start, numbers = time.perf_counter(), itertools.count(1)

    def show(drawn: Round) -> None:
        number, seconds = next(numbers), time.perf_counter() - start
        seen = f", {len(set().union(*drawn.references))} references" if number > 1 else ""
        parts = [
            f"{len(drawn.completions)} paths{seen}",
            f"{drawn.cost.completion_tokens} tokens, {seconds:.1f} s",
            *([f"{drawn.num_failed} failed"] if drawn.num_failed else []),
            *([f"{drawn.dropped} references did not fit"] if drawn.dropped else []),
        ]
        say(f"round {number} of {num_rounds}: {'; '.join(parts)}")
        for path, message in enumerate(drawn.messages):
            if message is not None:
                say(f"  {path + 1}: {one_line(message, most=_MESSAGE_CHARACTERS)}")

    return show


def batch(
    model: Model,
    source: Annotated[
        pathlib.Path,
        Parameter(
            help='Questions as JSON lines, {"id", "messages"}; with "responses", texts from elsewhere, the first '
            "round is not drawn. Further fields are kept."
        ),
    ],
    /,
    *,
    output: LinesFile,
    detach: Annotated[
        bool,
        Parameter(
            help="With --master: leave once it has the questions; `pacore fetch` writes the answers."
        ),
    ] = False,
    workers: WorkerOptions = DEFAULT_WORKERS,
    params: AnswerOptions = DEFAULT_ANSWER,
) -> None:
    """Answer a file of questions, in order; a killed command continues where it was.

    With --master the batch is handed over, and goes on at the master when this command ends.

    Output lines: `{"request_id", "status", "final_response", "final_reasoning_content",
    "round_responses", "rounds", "usage", "critical_tokens"}`, or `{"request_id", "error"}`.

    **Examples:**

        reasonloop pacore batch models/smollm2 questions.jsonl --output answers.jsonl
        reasonloop pacore batch models/smollm2 questions.jsonl --output answers.jsonl --set pacore.widths=[8,2]
        reasonloop pacore batch A questions.jsonl --output answers.jsonl --master 127.0.0.1:6400 --with B
    """
    workers.check(engine=params.engine)
    if detach and workers.master is None:
        raise BadInputError("--detach: needs --master, which then has the questions")
    solved: SolvedFile | None
    if workers.master is not None:
        models = (model, *workers.others)
        solved = hand_over(source, output, models, workers.master, params, leaves=detach)
        if solved is None:
            return
    else:
        loaded = params.load()
        opening = opened_engine(model, loaded, workers, log_folder=output.resolve().parent / "logs")
        with progress_bar("pacore") as moved:
            solved = solve_file(source, output, opening=opening, params=loaded, on_progress=moved)
    continued = (
        f", {solved.num_continued} from the interrupted command" if solved.num_continued else ""
    )
    say(
        f"{solved.num_questions} questions{continued}: {solved.calls} calls, "
        f"{solved.failed_calls} failed, {solved.tokens} tokens"
    )
    say(f"answers: {output}")
    if solved.errors:
        raise ReasonloopError(
            f"{len(solved.errors)} of {solved.num_questions} questions have no answer "
            f"({solved.errors[0]}); the same command asks these again"
        )


def consensus(
    source: Annotated[
        pathlib.Path,
        Parameter(
            help='Texts as JSON lines, several per "problem_id", or the output of `pacore batch`.'
        ),
    ],
    /,
    *,
    output: LinesFile,
    method: Annotated[Method, Parameter(help="Rule of the consensus.")] = Method.MAJORITY,
    score: Annotated[
        str | None, Parameter(help="Column of scores; default: probability per token.")
    ] = None,
    round_number: RoundNumber = 1,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Bring several answers to each question together by a vote.

    Answers are grouped by equivalence, as the verifier compares them: 1/2 and 0.5 are one answer.

    **Examples:**

        reasonloop pacore consensus paths.jsonl --output consensus.jsonl
        reasonloop pacore consensus paths.jsonl --method best --score reward --output best.jsonl
        reasonloop pacore consensus answers.jsonl --round 1 --output majority.jsonl
        reasonloop pacore consensus mixed.jsonl --method weighted --set 'pacore.weights={A: 0.6, B: 0.4}' --output w.jsonl
    """
    counts = consensus_of_file(
        source, output, params.load(), method=method, score=score, round_number=round_number
    )
    say(", ".join(f"{count} {name}" for name, count in counts.items()))
    say(f"consensus: {output}")


def weights(
    source: Annotated[
        pathlib.Path,
        Parameter(
            help="Output of `pacore batch --with` on questions with gold answers, in the fields that `reasonloop verify` "
            "reads."
        ),
    ],
    /,
    *,
    round_number: RoundNumber = 1,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Print the share of right responses of each model, as weights of a vote of the models.

    **Example:**

        reasonloop pacore weights known.jsonl
    """
    found = weights_by_accuracy(source, params.load(), round_number=round_number)
    say(f"--set 'pacore.weights={json.dumps(found)}'")
