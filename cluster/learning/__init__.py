"""The simulated machines on which a placement policy is trained and evaluated: jobs, rules, rewards, baselines ([4]).

Begin reading in `cluster.learning.episode`. Training needs Gymnasium and PyTorch: the extra ``learning``.
"""
