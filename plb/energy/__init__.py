"""The energy: five terms over a configuration, from exact sums, and the score that combines them."""
