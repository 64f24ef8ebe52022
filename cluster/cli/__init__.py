"""The command line, ``plb``: one command a module.

Begin reading in `cluster.cli.app`, which names them all.
"""
