"""Token-level proximal policy optimization with a critic; TRL no longer has it.

Source: Schulman et al. 2017 (arXiv:1707.06347).
"""
