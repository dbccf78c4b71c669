"""Data sets as Problems: loaders of the original formats, the Countdown generator, splits."""
