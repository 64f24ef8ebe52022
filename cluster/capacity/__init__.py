"""How many nodes a scenario needs, or how densely it can be packed, for at most so many violations a day."""
