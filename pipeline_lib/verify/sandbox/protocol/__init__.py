"""Frames and plain values exchanged between the examiner and the candidate."""
