"""`make bench-peers`: the same sweep by this program and by what else could run it."""
