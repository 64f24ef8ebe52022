"""A placement policy that learns by reinforcement ([4], DeepPlace): networks, training, and the policy that comes out.

It needs PyTorch: ``pip install 'plb[learning]'``. `plb.learning.interface` says what a game must offer to be learned.
"""
