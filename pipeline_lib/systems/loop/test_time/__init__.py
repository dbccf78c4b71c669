"""Test-time compute on a finished run: independent draws, searches, and the curves over budgets."""
