"""Params of Classmate: peers that continue the actor's chains, and the reward for their success."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline_lib.params.sections import Count, Positive, Rate, Section
from pipeline_lib.params.serve import ServeParams


class PeerParams(Section):
    """A classmate: its model, its engine and the resources of its Ray actor."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """In figures, reports and names of files."""
    model: str
    """A Hugging Face folder or hub id; at a url, the model's name there."""
    serve: ServeParams = ServeParams()
    """Its engine; a server at a url needs ``serve.tokenizer``, since no server continues an opened turn."""
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of its actor; a fraction shares one. Published: 1."""
    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    """CPUs of its actor. Published: 2."""


class ClassmateParams(Section):
    """Peers, and the part of the reward that their success is."""

    classmate_model_name_or_path_list: tuple[PeerParams, ...] = ()
    """The peers of the training; a plain string is a model that is named by its last path component."""
    held_out: tuple[PeerParams, ...] = ()
    """Peers of the evaluation alone."""
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
    """Take the success from the empty prefix from b."""
    keep: Annotated[tuple[Rate, ...], Field(min_length=1)] = (0.25, 0.5, 0.75)
    """Shares of the steps of a chain that a prefix keeps; one is drawn per problem and draw."""
    step: Annotated[str, Field(min_length=1)] = "\n"
    """Separator of the steps of a chain."""
    timeout_s: Positive = 60.0
    """Deadline of a peer for all questions of a draw; then its part of the reward is missing."""
    max_new_tokens: Count = 256
    temperature: Annotated[float, Field(ge=0)] = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    num_return_sequences: Count = 1
    """Continuations of a prefix per peer."""
    do_sample: bool = True
    """False is greedy."""

    @field_validator("classmate_model_name_or_path_list", "held_out", mode="before")
    @classmethod
    def _plain_names(cls, peers: Any) -> Any:
        if not isinstance(peers, list | tuple):
            return peers
        return [
            {"name": peer.rstrip("/").rpartition("/")[2], "model": peer}
            if isinstance(peer, str)
            else peer
            for peer in peers
        ]

    @model_validator(mode="after")
    def _distinct(self) -> "ClassmateParams":
        names = [peer.name for peer in (*self.classmate_model_name_or_path_list, *self.held_out)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"the name {twice[0]!r} is given to two classmates; rename one")
        return self

    @model_validator(mode="after")
    def _convex(self) -> "ClassmateParams":
        weight = self.classmate_reward_weight
        if self.fusion == "convex" and weight > 1:
            raise ValueError(
                f"classmate_reward_weight={weight}; with fusion=convex it is at most 1"
            )
        return self
