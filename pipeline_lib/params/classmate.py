"""Params of Classmate: peers that continue the actor's chains, and the reward for their success."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator
from typing_extensions import override

from pipeline_lib.errors import BadInputError, first_fault
from pipeline_lib.params.paths import BootstrapParams, PrepareParams
from pipeline_lib.params.sections import Count, Positive, Section, head_faults
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method, TrainParams, Variant

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
    """A small peer from scratch, with batches and rates of ``bootstrap``.

    It is trained on the column ``peer_solution`` of the problems that have it, else on the worked solution.
    """

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


class ArmParams(Section):
    """A training that the stages compare: its name, and what it has in place of values of the section."""

    name: Annotated[str, Field(pattern=_NAME)]
    bonus: Literal["none", "peers", "hashed", "shuffled"] | None = None
    """none: plain training, without peers."""
    credit: Literal["chain", "prefix"] | None = None
    cuts: Count | None = None
    lr: Positive | None = None
    steps: Count | None = None

    @property
    def asks_peers(self) -> bool:
        """False for plain training."""
        return self.bonus != "none"


class ClassmateEvaluateParams(Section):
    """Prefixes of the evaluation; section evaluate has paths and intervals."""

    headline: Literal["held-out peer", "pass@1"] = "held-out peer"
    """Measure of the headline difference; success of a peer is over right paths."""
    against: str | None = None
    """Policy that the last one is compared with in the headline; null: plain, else the first control."""
    accuracy: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Accuracy of draws that the report counts the steps to."""

    paths: Count = 4
    """Paths of each problem whose prefixes are continued."""
    samples: Annotated[int, Field(ge=2)] = 2
    """Continuations of a prefix per peer; their halves separate the spread of prefixes from the spread of draws."""

    def check_against(self, policies: Sequence[str]) -> None:
        """Raise BadInputError if ``against`` is none of the policies before the last."""
        if self.against not in {None, *policies[:-1]}:
            known = ", ".join(policies[:-1])
            raise BadInputError(f"classmate.evaluate.against={self.against}: is none of {known}")


def _made_peer(name: str, **sizes: Any) -> MadePeerParams:
    return MadePeerParams(name=name, num_heads=4, **sizes)


class ClassmateParams(Section):
    """Peers, and the part of the reward that their success is."""

    classmate_model_name_or_path_list: tuple[PeerParams, ...] = ()
    """The peers of the training; a plain string is a model that is named by its last path component. Empty:
    ``made_peers``."""
    held_out: tuple[PeerParams, ...] = ()
    """Peers of the evaluation alone."""
    made_peers: tuple[MadePeerParams, ...] = (
        _made_peer("small", hidden_size=48, num_layers=2, steps=350),
        _made_peer("wide", hidden_size=64, num_layers=2, steps=300),
        _made_peer("other", hidden_size=48, num_layers=3, steps=350, held_out=True),
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
    """Shares of the steps of a chain that a prefix keeps; ``cuts`` are drawn per problem and draw. 1 is the whole chain
    up to its answer."""
    cuts: Count = 1
    """Prefixes of a path, of distinct shares; b is the mean over them."""
    credit: Literal["chain", "prefix"] = "chain"
    """Tokens that b pays: all of the path, or those of the prefix alone, where the mean over the prefixes that hold a
    token counts; prefix is for GRPO."""
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
    bonus: Literal["peers", "hashed", "shuffled"] = "peers"
    """Source of b. Controls: the peers' bonuses are dealt among the right and among the wrong paths of a problem, so that
    mean and deviation are theirs. hashed: a hash of the prefix decides which paths have which, a steady preference.
    shuffled: chance decides."""
    arms: tuple[ArmParams, ...] = (
        ArmParams(name="plain", bonus="none"),
        ArmParams(name="shuffled", bonus="shuffled"),
        ArmParams(name="peers"),
    )
    """Trainings of the stages, which the evaluation compares: controls, and last the one in question."""
    prepare: PrepareParams = PrepareParams(
        dataset="hops", train_problems=4000, test_problems=300, bootstrap_problems=3000
    )
    """Problems of the stages."""
    bootstrap: BootstrapParams = BootstrapParams(
        validation_fraction=0.0,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        steps=350,
        initializer_range=0.1,
        batch_size=128,
        lr=4e-3,
    )
    """The base of the actor."""
    train: TrainParams = TrainParams(
        method=Method.GRPO,
        variant=Variant.GRPO,
        lr=3e-4,
        steps=30,
        batch_size=32,
        warm_start_steps=0,
        checkpoint_every=10,
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

    def of_arm(self, arm: ArmParams) -> "ClassmateParams":
        """The section with the values of ``arm``."""
        given = arm.model_dump(exclude_none=True, exclude={"name"})
        of_train: dict[str, Any] = {
            name: given.pop(name) for name in ("lr", "steps") if name in given
        }
        given["train"] = self.train.model_copy(update=of_train)
        return self.model_copy(update=given)

    @override
    def faults(self) -> Iterator[str]:
        peers = (*self.classmate_model_name_or_path_list, *self.held_out)
        names = [*(peer.name for peer in peers), *(made.name for made in self.used_recipes)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            yield f"the name {twice[0]!r} is given to two classmates; rename one"
        arms = [arm.name for arm in self.arms]
        if len({*arms} - {"base"}) < max(2, len(arms)):
            yield f"arms: {', '.join(arms)}; give two or more, with distinct names other than base"
        most = max([self.cuts, *(arm.cuts or 1 for arm in self.arms)])
        if most > len(self.keep):
            yield f"cuts={most}; keep has {len(self.keep)} shares: give more, or lower cuts"
        weight = self.classmate_reward_weight
        if self.fusion == "convex" and weight > 1:
            yield f"classmate_reward_weight={weight}; with fusion=convex it is at most 1"
