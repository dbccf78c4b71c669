"""A served reward model: scores of answers by vLLM's route ``/classify``, for models of sequence classification."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Conversation
from pipeline_lib.engines.launch.probes import NoAnswerError, Probes
from pipeline_lib.engines.running_engine import model_name, probes_of
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.evaluate import RewardParams

_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """A reward model at an address."""

    name: str
    probes: Probes
    timeout_s: float

    def score(self, conversations: Sequence[Conversation]) -> list[float]:
        """The reward of the last turn of each conversation, without a sigmoid: only its order counts.

        Raises:
            ReasonloopError: no answer, or none of a model with one or two classes.
        """
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            return [*pool.map(self._score, conversations)]

    def _score(self, conversation: Conversation) -> float:
        body = {
            "model": self.name,
            "messages": [message.fields() for message in conversation],
            "add_generation_prompt": False,
            "use_activation": False,
        }
        try:
            answer = self.probes.post("/classify", body, timeout_s=self.timeout_s)
        except NoAnswerError as error:
            raise ReasonloopError(f"test_time.reward.url: {self.probes.masked(error)}") from None
        try:
            [found] = answer.json()["data"]
            scores = [float(score) for score in found["probs"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ReasonloopError(
                f"test_time.reward.url: {self.probes.root_url}/classify: no scores"
            ) from error
        if len(scores) > 2:
            raise ReasonloopError(
                f"test_time.reward.model: {self.name} has {len(scores)} classes; a reward model has one score, "
                "or the classes wrong and right"
            )
        return scores[-1] - (scores[0] if len(scores) > 1 else 0.0)


def open_reward_model(params: RewardParams) -> RewardModel:
    """The reward model at ``params.url``.

    Raises:
        BadInputError: ``params.model`` is not served there, or is null while several are.
        ReasonloopError: the server does not answer.
    """
    assert params.url is not None  # by the params
    probes = probes_of(params.url, params.api_key_env)
    try:
        name = model_name(params.model, probes.models(), key="test_time.reward", url=params.url)
    except NoAnswerError as error:
        raise ReasonloopError(f"test_time.reward.url: {probes.masked(error)}") from None
    return RewardModel(name=name, probes=probes, timeout_s=params.timeout_s)
