"""Group-relative policy optimization over rollouts that consist of several sequences.

A rollout has one reward, and each of its sequences a prefix of its own: TRL's trainers take one completion a
prompt. Source: arXiv:2504.15466 (rollouts of threads), arXiv:2402.03300 (GRPO).
"""
