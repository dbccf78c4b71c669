"""Pages, tables and figures of a study."""
