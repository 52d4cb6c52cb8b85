"""Calls of Ray actors: their results, and what becomes of them if an actor is lost."""
