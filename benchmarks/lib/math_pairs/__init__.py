"""Generated pairs for `benchmarks.math_verifier_errors`."""
