"""Training of the actor: its verified reward, and with peers their success on its prefixes."""

import pathlib
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.gpus import free_gpu_memory
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json, read_json
from pipeline_lib.store.keys import code_digest, stage_key
from pipeline_lib.systems.classmate.draws import draw_files, write_record
from pipeline_lib.systems.classmate.peer import (
    NO_ROOM,
    PEER_ENGINE,
    Peer,
    PeerFailedError,
    Question,
    decoding_of,
    most_common_reasons,
)
from pipeline_lib.systems.classmate.peer_engine import check_readable
from pipeline_lib.systems.classmate.reward import check_method, make_classmate_rewards
from pipeline_lib.train.methods import TrainingRequest, TrainingSummary, train_policy
from pipeline_lib.train.phases import Progress
from pipeline_lib.train.sequence import finished_training
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies

_NO_REWARD = frozenset(
    {
        *("classmate_model_name_or_path_list", "held_out", "made_peers"),
        *("prepare", "bootstrap", "train", "evaluate", "arms"),
    }
)
"""Params of the section that are none of the reward; peers are in the key by their identities."""
_KEY_CHARACTERS = 16
_DRAWS = re.compile(f"[0-9a-f]{{{_KEY_CHARACTERS}}}")
"""Name of a folder of draws: the beginning of a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorTraining:
    """A training of one actor."""

    base: str
    """A Hugging Face folder or hub id."""
    problems: Sequence[Problem]
    output: pathlib.Path
    """Folder of the model."""
    draws: pathlib.Path
    """Folder of the draws of a training with peers, in a folder of its key."""
    trackers: pathlib.Path
    """Folder of the files of experiment trackers."""
    params: Params
    """Sections classmate, verify, serve and execution, ``sample.max_new_tokens`` and the seed."""

    def key(self, identities: Mapping[str, str]) -> str:
        """Key of the training; ``identities`` of its peers by name, empty without peers."""
        classmate, params = self.params.classmate, self.params
        train = classmate.train
        engine = [params.serve.engine, list(params.serve.options)]
        reward = classmate.model_dump(mode="json", exclude=set(_NO_REWARD))
        return stage_key(
            __name__,
            params={
                "train": train.model_dump(mode="json", exclude={"control"}),
                "reward": reward if identities else None,
                "verify": params.verify.model_dump(mode="json"),
                "max_new_tokens": params.sample.max_new_tokens,
                "engine": engine if train.rollouts == "endpoint" else None,
                "seed": params.seed,
            },
            inputs={
                "base": model_identity(self.base),
                "problems": digest_json([problem.row() for problem in self.problems]),
                **{f"peer {name}": identity for name, identity in identities.items()},
                **({"peer engine": code_digest(PEER_ENGINE)} if identities else {}),
            },
        )

    def draw_folder(self, identities: Mapping[str, str]) -> pathlib.Path:
        """Folder of the draws with these peers, as of `key`."""
        return self.draws / self.key(identities)[:_KEY_CHARACTERS]

    def is_done(self, identities: Mapping[str, str]) -> bool:
        """True if the output is the result of this training."""
        key = self.key(identities)
        return manifests.current(self.output, kind=policies.KIND, key=key) is not None


def train_actor(
    training: ActorTraining,
    peers: Sequence[Peer],
    *,
    progress: Progress,
    replaces: bool = False,
) -> TrainingSummary:
    """Train an actor with ``peers``, or plainly without any; an interrupted training is resumed.

    With ``replaces`` the model of another training in the output is replaced, not refused.

    Raises:
        BadInputError: the base cannot be loaded, the method has no place for the bonus, a peer cannot read the
            problems or has no room for a continuation, or the output is of another training.
    """
    params = training.params
    train = params.classmate.train
    identities = {peer.name: peer.identity for peer in peers}
    key = training.key(identities)
    finished = finished_training(training.output, key=key, replaces=replaces)
    make_rewards = None
    if peers:
        check_method(params.classmate, train)
        if finished is None:
            check_readable(params.classmate.classmate_model_name_or_path_list, training.problems)
            check_room(peers, training.problems, params.classmate)
        make_rewards = make_classmate_rewards(
            peers,
            training.problems,
            tokenizer=load_tokenizer(training.base),
            params=params.classmate,
            train=train,
            seed=params.seed,
            folder=training.draw_folder(identities),
        )
    chat_format = load_chat_format(training.base)
    summary = train_policy(
        TrainingRequest(
            base=training.base,
            output=training.output,
            rows=[
                {"problem_id": problem.id, "prompt": render(problem, chat_format)}
                for problem in training.problems
            ],
            problems=training.problems,
            params=train,
            verify=params.verify,
            max_new_tokens=params.sample.max_new_tokens,
            serve=params.serve,
            make_rewards=make_rewards,
            seed=params.seed,
            key=key,
            progress=progress,
            trackers=Trackers.of(params.execution, training.trackers),
        )
    )
    if peers:
        write_record(training.output, identities, params.classmate)
    # The evaluation loads the policies on the same GPU.
    free_gpu_memory()
    if peers and training.draws.is_dir():  # the files of a finished training may be gone
        for other in training.draws.iterdir():
            if _DRAWS.fullmatch(other.name) and other != training.draw_folder(identities):
                shutil.rmtree(other)
    return summary


def check_room(peers: Sequence[Peer], problems: Sequence[Problem], params: ClassmateParams) -> None:
    """Refuse a peer without room for a continuation of the longest problem's empty prefix: it would continue nothing."""
    longest = max(problems, key=lambda problem: len(problem.question))
    question = Question(problem=longest, prefix="", seeds=(0,))
    for peer in peers:
        try:
            [[drawn]] = peer.answer([question], decoding_of(params), timeout_s=params.timeout_s)
        except PeerFailedError:
            continue  # a late or dead peer is started again by the training, which counts it
        if drawn.error is not None and drawn.error.startswith(NO_ROOM):
            raise BadInputError(
                f"classmate {peer.name}: {drawn.error.removeprefix(NO_ROOM)}, for a prompt without a prefix; "
                "lower classmate.max_new_tokens"
            )


def failure_notes(training: ActorTraining, peers: Sequence[Peer]) -> list[str]:
    """A sentence for each peer with continuations without a score, over all draws of the training."""
    found: dict[str, Counter[str]] = {}
    for _, path in draw_files(training.draw_folder({one.name: one.identity for one in peers})):
        for name, reasons in read_json(path)["failures"].items():
            found.setdefault(name, Counter()).update(reasons)
    return [
        f"classmate {name}: {reasons.total()} continuations of the training have no score: "
        f"{most_common_reasons(reasons)}"
        for name, reasons in found.items()
        if reasons
    ]
