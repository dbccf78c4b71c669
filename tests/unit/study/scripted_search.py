"""Search settings on a scripted model; tokens are separated by spaces."""

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.study.search import SearchProblem, SearchSetting


def setting(answer, *, logprob=None, max_new_tokens=20, scorer=None, **compute):
    """``answer(prompt, seed)`` gives the whole rest of a path."""
    return SearchSetting(
        model=ScriptedModel(answer=answer, logprob=logprob),
        decoding=Decoding(max_new_tokens=max_new_tokens),
        params=StrategyParams(**compute),
        seed=5,
        scorer=scorer,
    )


def problem(name="p", prompt="Q "):
    """Two texts give one answer if they end in the same word."""
    seen: dict[str, int] = {}

    def answer_of(text):
        words = text.split()
        return seen.setdefault(words[-1], len(seen)) if words else None

    return SearchProblem(id=name, prompt=prompt, answer_of=answer_of)
