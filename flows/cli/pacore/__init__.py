"""Commands of PaCoRe."""
