"""Looks and decides: what is stuck, whether to refuse, and what a run came to."""
