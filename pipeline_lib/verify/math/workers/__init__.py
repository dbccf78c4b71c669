"""Pool of killable processes that compare answers with SymPy."""
