"""Commands of Classmate."""
