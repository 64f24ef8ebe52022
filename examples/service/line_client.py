"""A simulator that has a placement service place its replicas, line by line; any language can do the same.

Start the service with ``plb serve --lines 127.0.0.1:8766``; another address is the first argument.
"""

import json
import socket
import sys

host, port = (sys.argv[1:] or ["127.0.0.1:8766"])[0].split(":")
lines = socket.create_connection((host, int(port))).makefile("rw", newline="\n")


def ask(now: float, *events: dict, reads: tuple = ()) -> dict:
    """Send what has happened up to `now`, and return the answer to it."""
    print(json.dumps({"cluster": "simulated", "now": now, "events": events, "reads": reads}), file=lines, flush=True)
    answer = json.loads(lines.readline())
    if "error" in answer or answer["refusals"]:
        sys.exit(json.dumps(answer, indent=2))
    return answer


def plan(now: float, *events: dict) -> None:
    """Ask for a plan after events, print its moves, and carry it out."""
    made = ask(now, *events, {"type": "plan"})["plan"]
    for move in made["document"]["moves"]:
        print(f"{now:5.0f} s: {move['kind']} {move['partition']} to {move['target']}: {move['reason']}")
    ask(now, {"type": "apply", "plan": made["id"]})


ask(0, {"type": "cluster", "settings": {"metrics": [{"name": "cpu"}]}, "seed": 1})
names = ["db/0", "db/1", "db/2"]
service = {"name": "db", "target_replicas": 1, "default_load": {"primary": {"cpu": 2}}}
ask(0, *({"type": "node", "node": {"name": f"n{index}", "capacities": {"cpu": 8}}} for index in range(2)))
ask(0, {"type": "service", "service": service})
plan(0, *({"type": "partition", "partition": {"name": name, "service": "db"}} for name in names))
for now, loads in ((600, (3.0, 3.0, 2.0)), (1200, (4.0, 6.0, 3.0))):  # what a simulator would find
    (replicas,) = ask(now, reads=({"read": "replicas", "partitions": names},))["reads"]
    nodes = [replicas[name][0]["node"] for name in names]
    plan(now, {"type": "loads", "partitions": names, "nodes": nodes, "loads": [[load] for load in loads]})
