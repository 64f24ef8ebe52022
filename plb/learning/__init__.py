"""A placement policy that learns by reinforcement: networks, training, and the policy that comes of it (paper 4).

It needs PyTorch: ``pip install 'plb[learning]'``. `plb.learning.interface` says what a game must offer to be learned.
"""
