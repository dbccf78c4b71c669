"""Classmate: peers continue prefixes of the actor's chains, and their success is part of its reward."""
