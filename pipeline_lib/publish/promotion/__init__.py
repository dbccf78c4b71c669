"""Promotion: a candidate compared with the released policy, and the folder of releases."""
