"""Reinforcement learning of models of threads: draws, rewards, training."""
