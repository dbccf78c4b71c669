"""Systems of stages, blind to each other; `table` lists them."""
