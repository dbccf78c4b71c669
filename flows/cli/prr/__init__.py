"""Commands of PRR."""
