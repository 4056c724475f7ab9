"""Errors that explain themselves."""


class Explained(Exception):
    """An error whose message is all that its reader needs: what is wrong, and what to do.

    A traceback beside it would only push the message off the page.
    """
