"""The one kind of error that the local stack reports without a traceback."""

from __future__ import annotations


class StackError(Exception):
    """Something that whoever typed the command can put right; the message says how."""
