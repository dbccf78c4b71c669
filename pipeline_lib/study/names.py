"""Names of arms and measures in every metrics.json, with a line of definition each. Names are added, never renamed."""

from collections.abc import Iterable

ARMS = {
    "base": "The policy before training.",
    "control": "The base after as much supervised training as the loop took, without the loop.",
    "policy": "The policy after training.",
    "teacher": "The policy that wrote the paths it learned from.",
    "untouched": "The given model before any training.",
    "untouched few-shot": "The given model before any training, with worked examples in the prompt.",
    "vote": "The most frequent answer of several paths.",
    "best of N": "The path of several that a scorer prefers.",
    "parallel": "A model that spawns threads, after supervised training.",
    "serial": "A model that searches in one thread, after supervised training.",
    "parallel rl": "The parallel model after reinforcement learning on its own rollouts.",
    "serial rl": "The serial model after as much reinforcement learning.",
    "terse": "A model that writes the calculations of all parts alone in one thread, after supervised training.",
    "terse rl": "The terse model after as much reinforcement learning.",
    "parallel vote": "The most frequent claim of several parallel rollouts.",
    "serial vote": "The most frequent claim of several serial rollouts.",
    "untrained": "A model without training for threads.",
    "rounds": "Parallel answers in rounds of these widths, each round reading the answers of the one before.",
    "best vote, drawn": "The most accurate vote that draws no more tokens.",
    "best vote, total": "The most accurate vote that draws and reads no more tokens.",
    "best vote, critical": "The most accurate vote whose critical path is no longer.",
    "greedy": "One path, drawn greedily.",
    "one path": "One path, drawn at the temperature of the run.",
    "majority": "The most frequent answer.",
    "part vote": "A vote on each part of the answer.",
    "weighted vote": "A vote weighted by the likelihood of the paths.",
    "likelihood": "The most likely path.",
    "serial retry": "One path of a model that tries until it is right; it is cut at a number of tokens, if there is one.",
    "parallel retry": "Several such paths at once, of which the first that ends counts.",
    "stitched": "A path put together from parts of several.",
    "beam": "Beam search over steps, scored by likelihood.",
    "tree": "Tree search over steps, scored by self-evaluation.",
    "RSA": "Recursive self-aggregation: rounds over random subsets of a population of paths.",
    "rollouts": "Texts of another tool.",
    "threads": "Threads that spawn and join.",
    "other references": "Rounds that read answers to another problem.",
    "peers": "The policy whose reward counts the success of peers.",
    "peers prefix": "The policy whose peers continue prefixes of its chains.",
    "plain": "The policy after as much training without peers.",
    "hashed": "The policy with a bonus that is a hash of the chain in place of the success of peers.",
    "shuffled": "Prefixes of another problem.",
    "shuffled bonus": "The policy whose peers' success is dealt by chance among equally right paths of a problem.",
    "empty": "No prefix.",
    "chain": "A share of the steps of a given chain, rounded down; a share of 0 is no prefix.",
    "branches": "Parallel latent branches.",
    "one branch": "A model of one branch, trained for as many passes of the core.",
    "oracle": "The best of several, chosen with the label: an upper bound.",
    "scorer": "The branch that the scorer prefers.",
    "confidence": "The branch with the highest mean log-probability.",
    "noise": "Branches that differ by noise alone.",
}
"""By base name: what an arm is. A setting that varies in a file follows the base name."""

MEASURES = {
    "pass@k": "Chance that at least one of k paths is right.",
    "maj@k": "Chance that the most frequent answer of k paths is right.",
    "accuracy": "Share of problems whose answer is right.",
    "score": "Mean score of the verifier.",
    "claims": "Share of rollouts that claim a solution.",
    "false claims": "Share of claims that are wrong.",
    "emergent": "Share of right last answers where every reference is wrong.",
    "lost": "Share of wrong last answers where some reference is right.",
    "one more path": "Share of right further paths where every reference is wrong.",
    "spawned": "Share of rollouts in which a spawned thread finds a solution.",
    "well formed": "Share of parents that spawn with a block whose every line names a part of the question.",
    "right parts": "Share of parents whose block names every part of the question, in order.",
    "part right": "Share of the parts of a question whose child finds its value.",
    "results used": "Share of parents whose answer follows from the results that were joined, right or wrong.",
    "steps to accuracy": "Steps of training until the accuracy is reached.",
    "picks best": "Share of right picks where some branches are right and some are wrong.",
    "any solution": "Share of problems whose answer is one of their right answers, of which the label is only one.",
    "solutions found": "Share of the right answers to a problem that some branch gives.",
    "all solutions found": "Share of problems of which every right answer is given by some branch.",
    "held-out peer": "Success of a peer that no training asked, when it continues a prefix.",
    "training peer": "Success of a peer that the training asked, when it continues a prefix.",
    "given away": "Share of prefixes that give the answer away.",
}
"""By name: what a measure is. ``pass@k`` and ``maj@k`` stand for every k."""

ACCURACIES = ("pass@1", "accuracy")
"""Measures of whole problems that any arm can be compared by; of an arm with both the first, a mean over all paths."""

SUBSETS = {
    "all": "All paths.",
    "right paths": "Right paths alone.",
    "wrong paths": "Wrong paths alone.",
    "equal path": "Rollouts of the reference with a longer critical path than the arm's mean count as wrong.",
    "equal path, both": "Rollouts of both arms with a longer critical path than the arm's mean count as wrong.",
    "lenient": "Right by any form of the answer, in place of the one that the prompt asks for.",
}


def definitions(names: Iterable[str]) -> dict[str, str]:
    """The definition of each of ``names``, names of arms with settings and measures among them."""
    known = ARMS | MEASURES
    found = {}
    for name in names:
        base = next(
            (one for one in sorted(known, key=len, reverse=True) if _is_of(name, one)), None
        )
        if base is not None:
            found[base] = known[base]
    return found


def _is_of(name: str, base: str) -> bool:
    if base in {"pass@k", "maj@k"}:
        return name.startswith(base[:-1])
    return name == base or name.startswith(f"{base} ")
