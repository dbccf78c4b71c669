"""Results in the formats of other tools: Inspect logs, lm-eval results, model cards."""
