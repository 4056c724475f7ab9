"""What each peer runs, in an environment of its own, so nothing of ours is imported here."""
