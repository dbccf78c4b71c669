"""From problems to paths: one prompt template, seeded draws, resumable shards."""
