"""The energy: five terms of a configuration, computed from exact sums, and the score that combines them."""
