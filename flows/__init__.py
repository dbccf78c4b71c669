"""The DAGs of reasonloop and the command that starts them."""
