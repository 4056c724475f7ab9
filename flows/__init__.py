"""What runs: one file a flow, read top to bottom like the design."""

import gc

# What Prefect has imported stays until the process ends. A garbage collection that walks through
# all of it takes a tenth of a second, and importing a flow sets one off: see docs/benchmarks.md.
gc.freeze()
