"""Params of Classmate: peers that continue the actor's chains, and the reward for their success."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator
from typing_extensions import override

from pipeline_lib.errors import first_fault
from pipeline_lib.params.paths import BootstrapParams, CountdownParams, PrepareParams
from pipeline_lib.params.sections import Count, Positive, Section, head_faults
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method, TrainParams

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class PeerParams(Section):
    """A classmate: its model, its engine and the resources of its Ray actor."""

    name: Annotated[str, Field(pattern=_NAME)]
    """In figures, reports and names of files."""
    model: str
    """A Hugging Face folder or hub id; at a url, the model's name there."""
    serve: ServeParams = ServeParams()
    """Its engine; a server at a url needs ``serve.tokenizer``, since no server continues an opened turn."""
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of each of its actors; a fraction shares one. Published: 1."""
    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    """CPUs of each of its actors. Published: 2."""
    replicas: Count = 1
    """Actors or processes with the model, among which its questions are shared out."""


_PEERS = TypeAdapter(tuple[PeerParams, ...])


def _named(model: str) -> dict[str, str]:
    name = model.rstrip("/").rpartition("/")[2]
    if not re.fullmatch(_NAME, name):
        raise ValueError(
            f"{model}: {name!r} is no name of letters, digits, '.', '_' and '-'; give {{name: NAME, model: {model}}}"
        )
    return {"name": name, "model": model}


class MadePeerParams(Section):
    """A small peer from scratch, trained on worked solutions, with batches and rates of ``bootstrap``."""

    name: Annotated[str, Field(pattern=_NAME)]
    """In figures, reports and names of folders."""
    held_out: bool = False
    """A peer of the evaluation alone."""
    tokenizer: Literal["numbers", "digits"] = "numbers"
    """A token for each frequent number, or for each digit."""
    hidden_size: Count
    num_layers: Count
    num_heads: Count
    steps: Count

    @override
    def faults(self) -> Iterator[str]:
        yield from head_faults(self.hidden_size, self.num_heads)


class ClassmateEvaluateParams(Section):
    """Prefixes of the evaluation; section evaluate has paths and intervals."""

    paths: Count = 4
    """Paths of each problem whose prefixes are continued."""
    samples: Annotated[int, Field(ge=2)] = 2
    """Continuations of a prefix per peer; their halves separate the spread of prefixes from the spread of draws."""


class ClassmateParams(Section):
    """Peers, and the part of the reward that their success is."""

    classmate_model_name_or_path_list: tuple[PeerParams, ...] = ()
    """The peers of the training; a plain string is a model that is named by its last path component. Empty:
    ``made_peers``."""
    held_out: tuple[PeerParams, ...] = ()
    """Peers of the evaluation alone."""
    made_peers: tuple[MadePeerParams, ...] = (
        MadePeerParams(name="small", hidden_size=96, num_layers=3, num_heads=4, steps=1000),
        MadePeerParams(
            name="digits",
            tokenizer="digits",
            hidden_size=96,
            num_layers=3,
            num_heads=4,
            steps=1000,
        ),
        MadePeerParams(
            name="other",
            held_out=True,
            tokenizer="digits",
            hidden_size=64,
            num_layers=4,
            num_heads=4,
            steps=1400,
        ),
    )
    """Peers that the stages make where no peer of the training is named."""
    classmate_reward_weight: Annotated[float, Field(ge=0)] = 0.5
    """Weight w of the peers' success; 0 asks and logs, and trains as without peers."""
    aggregation: Literal["mean", "max"] = "mean"
    """Over the peers; max of M equal peers of success p is 1 - (1 - p)^M, which is luck."""
    fusion: Literal["additive", "convex", "normalized"] = "additive"
    """additive: base + w b. convex: (1 - w) base + w b. normalized: both normalized within the group, then
    added with weights 1 and w; GRPO alone."""
    gate: Literal["always", "when_right", "negative_when_wrong"] = "always"
    """Paths that b counts for."""
    relative: bool = False
    """Subtract the success from the empty prefix from b."""
    keep: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)] = (
        *(0.25, 0.5, 0.75),
    )
    """Shares of the steps of a chain that a prefix keeps; one is drawn per problem and draw. 1 is the whole chain up
    to its answer."""
    step: Annotated[str, Field(min_length=1)] = "\n"
    """Separator of the steps of a chain."""
    missing: Literal["mean", "base"] = "mean"
    """Reward of a path without any score where others of its group have one. mean: with the mean bonus of the group.
    base: the verified reward alone, which is a bonus of 0 beside theirs."""
    timeout_s: Positive = 60.0
    """Deadline of a peer for all questions of a draw; then its part of the reward is missing."""
    max_new_tokens: Count = 256
    temperature: Annotated[float, Field(ge=0)] = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    num_return_sequences: Count = 1
    """Continuations of a prefix per peer."""
    do_sample: bool = True
    """False is greedy."""
    bonus: Literal["peers", "blind"] = "peers"
    """Source of b. blind: a hash of the prefix decides which paths have which of the peers' bonuses, among the right
    and among the wrong paths of a problem, so that mean and deviation are theirs; it separates use to peers from
    any steady preference."""
    prepare: PrepareParams = PrepareParams(
        train_problems=4000,
        test_problems=300,
        bootstrap_problems=3000,
        countdown=CountdownParams(num_numbers=4, high=9, target_high=40),
    )
    """Problems of the stages."""
    bootstrap: BootstrapParams = BootstrapParams(
        validation_fraction=0.0, hidden_size=96, num_layers=3, num_heads=4, steps=1500
    )
    """The base of the actor."""
    train: TrainParams = TrainParams(
        method=Method.GRPO,
        lr=1e-4,
        steps=117,
        batch_size=32,
        warm_start_steps=0,
        checkpoint_every=20,
        control=False,
    )
    """Training of the actor."""
    evaluate: ClassmateEvaluateParams = ClassmateEvaluateParams()

    @field_validator("classmate_model_name_or_path_list", "held_out", mode="before")
    @classmethod
    def _plain_names(cls, peers: Any) -> Any:
        if not isinstance(peers, list):
            return peers
        rows = [_named(peer) if isinstance(peer, str) else peer for peer in peers]
        try:
            # Strict validation takes a list for a tuple from JSON alone.
            text = json.dumps(rows, default=lambda section: section.model_dump(mode="json"))
            return _PEERS.validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(first_fault(error)) from None

    @property
    def used_recipes(self) -> tuple[MadePeerParams, ...]:
        """``made_peers``, unless peers of the training are named."""
        return () if self.classmate_model_name_or_path_list else self.made_peers

    @override
    def faults(self) -> Iterator[str]:
        peers = (*self.classmate_model_name_or_path_list, *self.held_out)
        names = [*(peer.name for peer in peers), *(made.name for made in self.used_recipes)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            yield f"the name {twice[0]!r} is given to two classmates; rename one"
        weight = self.classmate_reward_weight
        if self.fusion == "convex" and weight > 1:
            yield f"classmate_reward_weight={weight}; with fusion=convex it is at most 1"
