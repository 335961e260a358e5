#!/usr/bin/env python3
"""Counts the pods that a real kube-scheduler binds to the nodes of an answer of qm-pack.

    tools/peers/kubernetes.sh start && eval "$(tools/peers/kubernetes.sh env)"
    schedule.py INPUT ANSWER [--nominate]

Creates the planned nodes, ready, with the labels, the allocatable resources and the taints of the input. Then the pods
are created in the order of the input, and counted once the scheduler has tried them all. With --nominate the pods have
a scheduling gate, and each gets its planned node as status.nominatedNodeName before the gate is removed. All nodes,
and the pods of the namespaces in the input, are deleted first.
"""
import json
import os
import sys
import time

import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/peers"))
from api import MERGE, Api

QUIET_SECONDS = 2
PROBE_SECONDS = 60
OUTCOME_SECONDS = 600


def name_of_node(number):
    return f"planned-{number:05d}"


def node_object(number, node, types):
    chosen = node["instance_type_options_cheapest"]
    kind = types[chosen["name"]]
    labels = {r["key"]: r["values"][0] for r in node["requirements"] if r.get("values")}
    labels.update({check.ZONE: chosen["zone"], check.HOST: name_of_node(number), "karpenter.sh/capacity-type": chosen["capacity_type"],
                   "node.kubernetes.io/instance-type": chosen["name"]})
    room = {"cpu": f"{kind['cpu_m'] - kind['overhead_cpu_m']}m", "memory": str(kind["mem_bytes"] - kind["overhead_mem_bytes"]),
            "pods": str(kind["pods"])}
    room.update({name: str(amount) for name, amount in (kind.get("extended") or {}).items()})
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name_of_node(number), "labels": labels},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True", "reason": "Planned"}]}}


def expressions(items):
    return [{"key": e["key"], "operator": e.get("op", e.get("operator")), **({"values": e["values"]} if e.get("values") else {})}
            for e in items]


def selector(of):
    return {"matchLabels": of.get("match_labels") or {}, "matchExpressions": expressions(of.get("match_expressions") or [])}


def affinity(pod):
    out = {}
    hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    nodes = out.setdefault("nodeAffinity", {})
    if pod["required_terms"]:
        nodes[hard] = {"nodeSelectorTerms": [{"matchExpressions": expressions(t["match_expressions"])} for t in pod["required_terms"]]}
    nodes[soft] = [{"weight": t["weight"], "preference": {"matchExpressions": expressions(t["match_expressions"])}}
                   for t in pod.get("preferred_terms") or []]
    for field, name in (("pod_affinity", "podAffinity"), ("pod_anti_affinity", "podAntiAffinity")):
        def term(of):
            return {"topologyKey": of["key"], "labelSelector": selector(of["selector"])}
        out[name] = {hard: [term(t) for t in pod.get(field) or []],
                     soft: [{"weight": t["weight"], "podAffinityTerm": term(t)} for t in pod.get("preferred_" + field) or []]}
    return out


def pod_object(pod, gated):
    extended = {name: str(amount) for name, amount in (pod.get("extended") or {}).items()}
    requests = {"cpu": f"{pod['cpu_m']}m", "memory": str(pod["mem_bytes"]), **extended}
    spread = [{"topologyKey": s["key"], "maxSkew": s["max_skew"], "whenUnsatisfiable": s["when_unsatisfiable"],
               "labelSelector": selector(s["selector"])} for s in pod["topology_spread"]]
    spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": extended}}],
            "nodeSelector": pod["node_selector"], "tolerations": pod["tolerations"], "affinity": affinity(pod),
            "topologySpreadConstraints": spread, "terminationGracePeriodSeconds": 0}
    if gated:
        spec["schedulingGates"] = [{"name": "quartermaster.dev/planned"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod["uid"].lower(), "labels": pod["labels"]}, "spec": spec}


def pods_path(pod):
    return f"/api/v1/namespaces/{pod['namespace'] or 'default'}/pods"


def prepare(api, problem, answer):
    for space in sorted({p["namespace"] or "default" for p in problem["pods"]}):
        new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        api.call("POST", "/api/v1/namespaces", new, allowed=(409,))
        api.call("DELETE", f"/api/v1/namespaces/{space}/pods", {"gracePeriodSeconds": 0})
    api.call("DELETE", "/api/v1/nodes")
    types = {t["name"]: t for t in problem["types"]}
    for number, node in enumerate(answer["nodes"]):
        api.call("POST", "/api/v1/nodes", node_object(number, node, types))
        # The API server taints new nodes as not ready.
        taints = {"spec": {"taints": problem["nodepool"].get("taints") or None}}
        api.call("PATCH", "/api/v1/nodes/" + name_of_node(number), taints, MERGE)
    await_last_node(api, problem, name_of_node(len(answer["nodes"]) - 1))


def await_last_node(api, problem, node):
    """Until the scheduler binds a pod to the node. It reads nodes in the order of their changes, so it has all of them then."""
    taints = problem["nodepool"].get("taints") or []
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "planned-nodes"},
             "spec": {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {check.HOST: node},
                      "tolerations": [{"key": t["key"], "operator": "Exists"} for t in taints]}}
    pods = "/api/v1/namespaces/default/pods"
    made = api.call("POST", pods, probe)
    changes = api.watch(pods, made["metadata"]["resourceVersion"], PROBE_SECONDS)
    if not any(p["metadata"]["name"] == "planned-nodes" and p["spec"].get("nodeName") for _, p in changes):
        raise RuntimeError(f"the scheduler bound no pod to {node} within {PROBE_SECONDS} s")
    api.call("DELETE", pods + "/planned-nodes", {"gracePeriodSeconds": 0})


def create(api, problem, home, nominate):
    for pod in problem["pods"]:
        api.call("POST", pods_path(pod), pod_object(pod, nominate and pod["uid"] in home))
    for pod in problem["pods"] if nominate else []:
        if pod["uid"] in home:
            path = f"{pods_path(pod)}/{pod['uid'].lower()}"
            api.call("PATCH", path + "/status", {"status": {"nominatedNodeName": home[pod["uid"]]}}, MERGE)
            api.call("PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)


def is_tried(pod):
    conditions = pod["status"].get("conditions") or []
    return bool(pod["spec"].get("nodeName")) or any(c.get("reason") == "Unschedulable" for c in conditions)


def outcome(api, problem):
    """The node of each pod, once all pods have been tried and for QUIET_SECONDS no more are bound."""
    names = {(p["namespace"] or "default", p["uid"].lower()) for p in problem["pods"]}
    listed = api.call("GET", "/api/v1/pods")
    version, nodes, open_pods = listed["metadata"]["resourceVersion"], {}, set(names)

    def see(pod):
        """Whether its node is news."""
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if key not in names:
            return False
        if is_tried(pod):
            open_pods.discard(key)
        before, nodes[key[1]] = nodes.get(key[1]), pod["spec"].get("nodeName")
        return nodes[key[1]] != before

    for pod in listed["items"]:
        see(pod)
    until = time.time() + OUTCOME_SECONDS
    while time.time() < until:
        changed = False
        for _, pod in api.watch("/api/v1/pods", version, QUIET_SECONDS):
            version = pod["metadata"]["resourceVersion"]
            changed |= see(pod)
        if not changed and not open_pods:
            return nodes
    raise RuntimeError(f"within {OUTCOME_SECONDS} s the scheduler did not try {len(open_pods)} of {len(names)} pods, or still binds")


def main():
    nominate = "--nominate" in sys.argv
    files = [a for a in sys.argv[1:] if a != "--nominate"]
    if len(files) != 2:
        sys.exit(__doc__)
    problem, answer = (check.load(path) for path in files)
    home = {uid: name_of_node(number) for number, node in enumerate(answer["nodes"]) for uid in node["pods"]}
    api = Api()
    prepare(api, problem, answer)
    create(api, problem, home, nominate)
    nodes = outcome(api, problem)
    bound = sum(1 for uid in home if nodes[uid.lower()])
    planned = sum(1 for uid, node in home.items() if nodes[uid.lower()] == node)
    kinds = {}
    for pod in problem["pods"]:
        if pod["uid"] in home and not nodes[pod["uid"].lower()]:
            kinds[pod.get("kind", "")] = kinds.get(pod.get("kind", ""), 0) + 1
    print(f"{bound} of {len(home)} pods bound ({100 * bound / max(1, len(home)):.2f} %), {planned} to the planned node, "
          f"price {answer['total_price']:.2f}, {len(answer['nodes'])} nodes, unbound {kinds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
