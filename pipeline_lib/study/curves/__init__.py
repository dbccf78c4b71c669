"""Test-time compute curves: accuracy of every strategy against its token cost."""
