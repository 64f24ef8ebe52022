"""The experiments of [3] on instances that are generated from data that the user has: figures 3 to 7."""
