"""How it runs: the local stack behind `make run`, and its sample sites."""
