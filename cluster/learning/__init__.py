"""The simulated machines on which a placement policy is learned and measured: jobs, rules, rewards, baselines ([4]).

`cluster.learning.environment` needs Gymnasium: ``pip install 'plb[learning]'``. Nothing else here does, nor PyTorch.
"""
