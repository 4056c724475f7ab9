"""`make bench`: what the program costs, as ratios measured in one run on data made for it."""
