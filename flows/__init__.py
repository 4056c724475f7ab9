"""What runs: one file a flow, read top to bottom like the design."""
