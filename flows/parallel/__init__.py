"""Work in parallel: shards over workers, trainings that run concurrently, draws."""
