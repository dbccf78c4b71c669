"""Evaluation of models of threads: problems, rollouts that resume, figures, report."""
