"""The steps of the loop on files, outside of a workspace."""
