"""The command line, ``plb``: one command in each module.

Begin reading in `cluster.cli.app`, which lists them all.
"""
