"""The energy: four terms over a configuration, from exact sums, and the score that combines them."""
