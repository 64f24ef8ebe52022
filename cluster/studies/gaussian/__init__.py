"""The experiments of [2] on traces that the user has: table 1 and figures 6 to 13."""
