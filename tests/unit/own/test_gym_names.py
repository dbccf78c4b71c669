"""All data sets of reasoning-gym but `composite`: equal rows in two processes, and what their scorers say."""

import ast
import itertools
import json
import re
import subprocess
from collections import deque

import pytest

from pipeline_lib.own.code import TASKS as GROUP
from pipeline_lib.own.code import find_source
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.problems.own_task import task_problems
from pipeline_lib.verify.dispatch import Item, open_verifier
from tests.unit.own.tasks_environment import TASKS, needs_tasks

EACH = 10
LIST = (
    "import json, reasoning_gym.factory as f, reasoning_gym; print(json.dumps(sorted(f.DATASETS)))"
)


def names():
    done = subprocess.run(
        [TASKS / "bin" / "python", "-c", LIST], capture_output=True, text=True, check=True
    )
    return [name for name in json.loads(done.stdout.splitlines()[-1]) if name != "composite"]


def first_rows(mixture):
    """Ten problems of each data set, from a mixture of all in a process of its own."""
    source = find_source(f"gym:{json.dumps(mixture)}", key="test", group=GROUP)
    problems = task_problems(source, {"train": 25 * len(mixture)}, seed=7)["train"]
    own = {name: [] for name in mixture}
    for one in problems:
        own[one.columns["set"].removeprefix("gym:")].append(one)
    return {name: some[:EACH] for name, some in own.items()}


@needs_tasks
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_data_set(monkeypatch):
    monkeypatch.setenv("REASONLOOP_TASKS", str(TASKS))
    mixture = {name: {} for name in names()}
    assert len(mixture) == 105
    found = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(first_rows(mixture))
    assert found[0] == found[1]
    assert {name for name, own in found[0].items() if len(own) < EACH} == set()
    problems = [one for own in found[0].values() for one in own]
    assert {name for name, own in found[0].items() if own[0].solution is None} == set(SOLVERS)
    with open_verifier(VerifyParams(own=OwnLimits(timeout_s=120.0)), workers=2) as verifier:
        right = verifier.judge(
            [Item(gold=one.gold, text=f"<answer>{answer_to(one)}</answer>") for one in problems]
        )
        empty = [
            verifier.judge([Item(gold=one.gold, text=text) for one in problems])
            for text in ("", "<answer></answer>", "<answer> \n</answer>")
        ]
    missed = {
        (one.columns["set"], verdict.score, verdict.detail)
        for one, verdict in zip(problems, right, strict=True)
        if not verdict.strict
    }
    assert missed == set()
    for verdict in itertools.chain(*empty):
        assert (verdict.strict, verdict.lenient) == (False, False)
        assert verdict.score <= 0.01


def answer_to(problem):
    if problem.solution is not None:
        return problem.solution
    row = ast.literal_eval(problem.gold.entry)
    return SOLVERS[row["metadata"]["source_dataset"]](row["metadata"])


def colour(row):
    """A colouring by search; the puzzle has one."""
    puzzle = row["puzzle"]
    beside = {one: set() for one in puzzle["vertices"]}
    for one, other in puzzle["edges"]:
        beside[one].add(other)
        beside[other].add(one)
    chosen = {}

    def fill(rest):
        if not rest:
            return True
        for colour_of in puzzle["color_options"]:
            if all(chosen.get(other) != colour_of for other in beside[rest[0]]):
                chosen[rest[0]] = colour_of
                if fill(rest[1:]):
                    return True
                del chosen[rest[0]]
        return False

    assert fill(puzzle["vertices"])
    return json.dumps(chosen)


def unscramble(row):
    """The moves of the scramble, backwards."""
    moves = row["scramble_moves"].split()
    return " ".join(one[:-1] if one.endswith("'") else f"{one}'" for one in reversed(moves))


def deliver(row):
    """Each box in turn, square by square, to the target of its colour."""
    state, plan = row["initial_state"], []
    place = {thing: where for where, things in state.items() for thing in things}
    for box in [one for one in place if one.startswith("box_")]:
        target = box.replace("box_", "target_")
        x, y = map(float, place[box].split("_"))
        goal_x, goal_y = map(float, place[target].split("_"))
        while (x, y) != (goal_x, goal_y):
            before = f"Agent[{x}, {y}]"
            if x != goal_x:
                x += 1 if goal_x > x else -1
            else:
                y += 1 if goal_y > y else -1
            plan.append({before: f"move({box}, square[{x}, {y}])"})
        plan.append({f"Agent[{x}, {y}]": f"move({box}, {target})"})
    return json.dumps(plan)


def drive_out(row):
    """The shortest way out in single steps, by breadth-first search over boards of 6 x 6."""
    start = row["board_config"]
    parents, waiting = {start: None}, deque([start])
    while waiting:
        board = waiting.popleft()
        if board[16:18] == "AA":
            moves = []
            while parents[board] is not None:
                board, move = parents[board]
                moves.append(move)
            return " ".join(reversed(moves))
        for after, move in slides(board):
            if after not in parents:
                parents[after] = (board, move)
                waiting.append(after)
    raise AssertionError(start)


def slides(board):
    """Boards after a step of one piece, which the scorer calls by its place among the letters."""
    for name, piece in zip("ABCDEFGHIJKLMNOPQR", sorted(set(board) - {"o", "x"}), strict=False):
        cells = [place for place, one in enumerate(board) if one == piece]
        stride = cells[1] - cells[0]
        for sign, front, back in ((1, cells[-1], cells[0]), (-1, cells[0], cells[-1])):
            into = front + sign * stride
            crosses = stride == 1 and into // 6 != front // 6
            if 0 <= into < 36 and not crosses and board[into] == "o":
                moved = list(board)
                moved[into], moved[back] = piece, "o"
                yield "".join(moved), f"{name}{sign:+d}"


def conclude(row):
    """A premise follows from the premises; twice, so that it is no single variable."""
    for premise in row["premises"]:
        if not is_always_true(premise):
            return f"({premise} \N{LOGICAL AND} {premise})"
    raise AssertionError(row)


def is_always_true(premise):
    names = sorted(set(re.findall("[A-Z]", premise)))
    words = {"\N{LOGICAL AND}": "and", "\N{LOGICAL OR}": "or", "\N{NOT SIGN}": "not ",
             "\N{RIGHTWARDS ARROW}": "<=", "\N{LEFT RIGHT ARROW}": "=="}  # fmt: skip
    for sign, word in words.items():
        premise = premise.replace(sign, word)
    values = itertools.product([False, True], repeat=len(names))
    return all(eval(premise, dict(zip(names, some, strict=True))) for some in values)


SOLVERS = {
    "boxnet": deliver,
    "graph_color": colour,
    "propositional_logic": conclude,
    "rubiks_cube": unscramble,
    "rush_hour": drive_out,
}
