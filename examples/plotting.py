"""Plots of a user from a results directory: violations over time, and moves between fault domains.

Run it with `.venv/bin/python examples/plotting.py DIR`. Without a directory it simulates a small cluster first.
"""

import sys
import tempfile
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from cluster.plots.base import plot_violations
from cluster.plots.moves import domain_moves, plot_domain_moves
from cluster.results.notebook import simulate
from cluster.results.reading import read_results
from cluster.results.summary_tables import compare

SCENARIO = """
[cluster]
nodes = 10
upgrade_domains = 5
[workload]
density = 2.2
history_tenants = 300
[run]
days = 0.25
seed = 3
"""


def draw(folder: Path) -> None:
    """Draw two plots into one figure, and print their data."""
    results = read_results(folder)
    lengths = {policy: results.lengths(policy) for policy in results.policies}
    first = results.policies[0]
    moves = results.table("moves").filter(policy=first)
    nodes = results.table("nodes").filter(policy=first)

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_violations(left, results.table("shortages"), results.policies, lengths, results.days)
    plot_domain_moves(right, moves, nodes)
    figure.savefig(folder / "mine.png")

    comparison = compare(results.runs, results.policies)
    for policy, figures in comparison.figures.items():
        print(policy, figures["violations"].mean, "violations,", figures["moves"].mean, "moves")
    print(domain_moves(moves, nodes).counts)
    highest = results.table("node_load", repeat=0).filter(policy=first).group_by("metric").agg(pl.col("share").max())
    print({metric: round(share, 3) for metric, share in highest.sort("metric").iter_rows()})


if len(sys.argv) > 1:
    draw(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory() as scratch:
        scenario = Path(scratch) / "small.toml"
        scenario.write_text(SCENARIO)
        simulate(scenario, f"{scratch}/results")
        draw(Path(scratch) / "results")
