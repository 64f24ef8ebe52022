"""The simulated machines on which a placement policy is trained and evaluated: jobs, rules, rewards, baselines ([4]).

Begin reading in `cluster.learning.game`. Only `cluster.learning.environment` needs Gymnasium: ``pip install
'plb[learning]'``.
"""
