"""The stages of PaCoRe after its data."""
