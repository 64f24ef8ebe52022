"""A placement policy that learns by reinforcement ([4], DeepPlace): networks, training, and the trained policy.

It needs PyTorch, and training Gymnasium as well: the extra ``learning``. Begin reading in
`plb.learning.placement_game`, the observations and actions of a game.
"""
