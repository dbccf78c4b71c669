"""What each step of a given chain is worth to peers: their success by the number of kept steps."""
