"""The same seed, inputs and budget give the same plan on any thread, process or engine."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs
from hypothesis import given
from hypothesis import strategies as st

from plb import Node
from plb.search.annealing.annealing import THREADED_PROPOSALS
from plb.testing import all_clusters
from tests.engine.strategies import examples


@examples(60)
@given(all_clusters(), st.randoms(use_true_random=False))
def test_order_of_dictionary_keys_does_not_matter(cluster, random):

    def shuffled(mapping):
        keys = list(mapping)
        random.shuffle(keys)
        return {key: mapping[key] for key in keys}

    nodes = tuple(
        attrs.evolve(n, capacities=shuffled(n.capacities), properties=shuffled(n.properties)) for n in cluster.nodes
    )
    loads = {end: shuffled(load) for end, load in cluster.loads.items()}
    other = attrs.evolve(cluster, nodes=nodes, loads=loads)
    assert other.engine().refresh(0.0, budget=240) == cluster.engine().refresh(0.0, budget=240)


@examples(60)
@given(all_clusters())
def test_unrelated_calls_in_between_do_not_matter(cluster):
    """Reading replicas and violations, and repeating known descriptions, does not change the random numbers."""
    quiet, asked = cluster.engine(), cluster.engine()
    first = quiet.refresh(0.0, budget=240)
    asked.violations()
    for partition in cluster.partitions:
        asked.replicas(partition.name)
    for node in cluster.nodes:
        asked.update_node(attrs.evolve(node))
    assert asked.refresh(0.0, budget=240) == first


@examples(5)
@given(all_clusters())
def test_number_of_threads_does_not_matter_to_any_cluster(cluster):
    plans = [cluster.engine(threads=threads, chains=3).balance(budget=3 * THREADED_PROPOSALS) for threads in (1, 2, 4)]
    assert plans[0] == plans[1] == plans[2]


def test_seed_matters(small_cluster):
    plans = [attrs.evolve(small_cluster, seed=seed).engine().balance(budget=400).proposals for seed in range(5)]
    assert len({repr(plan) for plan in plans}) > 1


def test_capacity_added_in_a_later_update_does_not_matter(small_cluster):
    """A later update may complete the capacities of a node; the plan is that of the final state."""
    bare, whole = small_cluster.engine(), small_cluster.engine()
    bare.update_node(Node("n2", capacities={"memory": 40}))
    bare.update_node(Node("n2", capacities={"cpu": 20, "memory": 40}))
    assert bare.refresh(0.0) == whole.refresh(0.0)


PLAN_OF_A_CLUSTER = """
import hashlib
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.risk import DemandHistory
history = DemandHistory.from_columns(
    ("cpu",), tenant_class=["gold", "silver"] * 5, role=[0, 1] * 5, lifetime=range(10),
    level=[[i] for i in range(10)], initial=[[0]] * 10, growth=[[0]] * 10, maximum=[[i] for i in range(10)],
)
config = PlbConfig(metrics=[Metric("cpu")], repetitions=8, w_imbalance=100.0, w_failovers=5.0, held_out_nodes=1)
engine = PlacementAndLoadBalancing(config, seed=11, history=history)
for i in range(6):
    engine.update_node(Node(f"n{i}", capacities={"cpu": 30}, fault_domain=f"fd:/{i % 3}", upgrade_domain=f"u{i % 2}",
                            properties={"zone": f"z{i % 2}", "ssd": "true"}))
engine.update_service(Service("db", target_replicas=3, tenant_class="gold", placement_constraint="ssd == true",
                              default_load={Role.PRIMARY: {"cpu": 4}, Role.SECONDARY: {"cpu": 1}}))
for i in range(8):
    engine.update_partition(Partition(f"db/{i}", service="db", replicas=[Replica(Role.PRIMARY, f"n{i % 2}")]))
for verb in ("place", "repair", "balance"):
    plan = getattr(engine, verb)(budget=2000)
    engine.apply(plan)
    print(verb, len(plan.moves), hashlib.sha256(repr(plan).encode()).hexdigest())
"""


def test_new_processes_make_the_same_plan_for_any_hash_seed():
    printed = []
    for hash_seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PLAN_OF_A_CLUSTER],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    moves = [int(line.split()[1]) for line in printed[0].splitlines()]
    assert moves[0] == 16
