"""Group-relative advantages: rules from the rewards of a group of paths to their advantages.

Each rule is a pure function in a file of its own, and a line in `rules.RULES`. Nothing here imports
torch: the rules call methods of the tensors that they get, so that names can be checked early.

Axes: P prompts, N paths of a prompt (a group), K parts of a reward. A NaN is a missing score.
"""
