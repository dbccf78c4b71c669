"""Judge of mathematical answers: extraction, exact comparison, SymPy in worker processes."""
