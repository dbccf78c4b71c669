"""Commands of the verified loop and its stages."""
