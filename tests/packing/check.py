#!/usr/bin/env python3
"""Checks an answer of qm-pack against its input, with no code in common with the product.

    check.py INPUT ANSWER [--node-price P]

Prints one line per violation and exits with 1 if there are any. The rules are those of Kubernetes and Karpenter: zone
spread is judged by placing the pods in the order of the input, each in the zone of its node.
"""
import collections
import gzip
import json
import sys

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
MONEY = 1e-6


def load(path):
    data = open(path, "rb").read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def number(text):
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def holds(expression, labels):
    key, op, values = expression["key"], expression.get("op", expression.get("operator")), expression.get("values") or []
    value = labels.get(key)
    if op == "In":
        return value in values
    if op == "NotIn":
        return value not in values
    if op == "Exists":
        return value is not None
    if op == "DoesNotExist":
        return value is None
    have, bound = number(value), number(values[0])
    if have is None or bound is None:
        return False
    return {"Gt": have > bound, "Lt": have < bound, "Gte": have >= bound, "Lte": have <= bound}[op]


def selects(selector, labels):
    return all(labels.get(k) == v for k, v in (selector.get("match_labels") or {}).items()) and all(
        holds(e, labels) for e in selector.get("match_expressions") or [])


def admits(pod, labels):
    if any(labels.get(k) != v for k, v in pod["node_selector"].items()):
        return False
    terms = pod["required_terms"]
    return not terms or any(t["match_expressions"] and all(holds(e, labels) for e in t["match_expressions"]) for t in terms)


def tolerated(pod, taints):
    for taint in taints:
        if taint["effect"] == "PreferNoSchedule":
            continue
        for t in pod["tolerations"]:
            if t.get("effect") and t["effect"] != taint["effect"]:
                continue
            if t.get("operator") == "Exists":
                if not t.get("key") or t["key"] == taint["key"]:
                    break
            elif t.get("key") == taint["key"] and (t.get("value") or "") == (taint.get("value") or ""):
                break
        else:
            return False
    return True


class Checker:
    def __init__(self, problem, answer, node_price):
        self.problem, self.answer, self.node_price = problem, answer, node_price
        self.pods = {p["uid"]: p for p in problem["pods"]}
        self.types = {t["name"]: t for t in problem["types"]}
        self.pool = problem["nodepool"]
        self.faults = []
        self.node_of = {}
        self.launch_zones = {o["zone"] for t in self.types.values() for o in t["offerings"] if o["available"] and self.allowed(t, o)}

    def allowed(self, kind, offering):
        """Whether the NodePool can launch the offering, judged by the labels that the type and the cloud set."""
        labels = dict(self.pool.get("labels") or {})
        labels.update({ZONE: offering["zone"], "karpenter.sh/capacity-type": offering["capacity_type"],
                       "node.kubernetes.io/instance-type": kind["name"]})
        values = {key: {value} for key, value in labels.items()}
        for r in kind["requirements"]:
            if r["op"] == "In":
                values.setdefault(r["key"], set(r["values"]))
        requirements = kind["requirements"] + (self.pool.get("requirements") or [])
        return all(any(holds(r, {r["key"]: value}) for value in values[r["key"]]) for r in requirements if r["key"] in values)

    def fault(self, text):
        self.faults.append(text)

    def run(self):
        self.placement()
        for at, node in enumerate(self.answer["nodes"]):
            self.launch(at, node)
            self.room(at, node)
        self.hosts()
        self.zones()
        self.refused()
        self.sums()
        return self.faults

    def placement(self):
        for at, node in enumerate(self.answer["nodes"]):
            if not node["pods"]:
                self.fault(f"node {at} is empty")
            for uid in node["pods"]:
                if uid not in self.pods:
                    self.fault(f"{uid} does not exist")
                elif uid in self.node_of:
                    self.fault(f"{uid} is placed twice")
                else:
                    self.node_of[uid] = at
        for uid, reason in self.answer["errors"].items():
            if uid in self.node_of or uid not in self.pods or not reason:
                self.fault(f"{uid} is in errors and placed, unknown, or without a reason")
        for uid in self.pods:
            if uid not in self.node_of and uid not in self.answer["errors"]:
                self.fault(f"{uid} is missing")

    def zone(self, uid):
        return self.answer["nodes"][self.node_of[uid]]["instance_type_options_cheapest"]["zone"]

    def launch(self, at, node):
        chosen = node["instance_type_options_cheapest"]
        kind = self.types.get(chosen["name"])
        if kind is None:
            return self.fault(f"node {at}: unknown type {chosen['name']}")
        if not any(o["available"] and o["zone"] == chosen["zone"] and o["capacity_type"] == chosen["capacity_type"] and
                   o["price"] == chosen["price"] for o in kind["offerings"]):
            self.fault(f"node {at}: offering {chosen} does not exist or is not available")
        truth = {ZONE: {chosen["zone"]}, "karpenter.sh/capacity-type": {chosen["capacity_type"]},
                 "node.kubernetes.io/instance-type": {chosen["name"]}}
        for r in kind["requirements"]:
            if r["op"] == "In":
                truth.setdefault(r["key"], set(r["values"]))
        labels = dict(self.pool.get("labels") or {})
        for r in node["requirements"]:
            if r["op"] != "In" or not r["values"]:
                self.fault(f"node {at}: requirement {r} lists no value")
                continue
            if r["key"] in truth and not truth[r["key"]] & set(r["values"]):
                self.fault(f"node {at}: requirement {r} is not true of {chosen['name']}")
            if len(r["values"]) == 1:
                labels[r["key"]] = r["values"][0]
        for key, values in truth.items():
            if len(values) == 1:
                labels.setdefault(key, min(values))
            if labels.get(key) not in values:
                self.fault(f"node {at}: label {key} is {labels.get(key)}, not in {sorted(values)}")
        for r in kind["requirements"] + (self.pool.get("requirements") or []):
            if not holds(r, labels):
                self.fault(f"node {at}: {r} does not hold")
        for uid in node["pods"]:
            if not admits(self.pods[uid], labels):
                self.fault(f"{uid} does not admit node {at}")
            if not tolerated(self.pods[uid], self.pool.get("taints") or []):
                self.fault(f"{uid} does not tolerate the taints")

    def fits(self, kind, pods):
        used = collections.Counter()
        for p in pods:
            used["cpu"] += p["cpu_m"]
            used["memory"] += p["mem_bytes"]
            used["pods"] += 1
            used.update(p.get("extended") or {})
        has = dict(kind.get("extended") or {})
        has.update(cpu=kind["cpu_m"] - kind["overhead_cpu_m"], memory=kind["mem_bytes"] - kind["overhead_mem_bytes"],
                   pods=kind["pods"])
        return [r for r, n in used.items() if n > has.get(r, 0)]

    def room(self, at, node):
        kind = self.types[node["instance_type_options_cheapest"]["name"]]
        for resource in self.fits(kind, [self.pods[u] for u in node["pods"]]):
            self.fault(f"node {at} ({kind['name']}) has too little {resource}")

    def hosts(self):
        for at, node in enumerate(self.answer["nodes"]):
            pods = sorted((self.pods[u] for u in node["pods"]), key=lambda p: p["index"])
            for a in pods:
                for term in a["pod_anti_affinity"]:
                    if term["key"] != HOST:
                        continue
                    for b in pods:
                        if b is not a and b["namespace"] == a["namespace"] and selects(term["selector"], b["labels"]):
                            self.fault(f"node {at}: {a['uid']} repels {b['uid']}")
                for s in a["topology_spread"]:
                    if s["key"] != HOST or s["when_unsatisfiable"] != "DoNotSchedule":
                        continue
                    before = sum(1 for b in pods if b["index"] <= a["index"] and b["namespace"] == a["namespace"] and
                                 selects(s["selector"], b["labels"]))
                    if before > s["max_skew"]:
                        self.fault(f"node {at}: {a['uid']} exceeds the host skew")

    def universe(self, pod):
        zones = self.launch_zones

        def allowed(zone):
            if pod["node_selector"].get(ZONE, zone) != zone:
                return False
            terms = pod["required_terms"]
            return not terms or any(all(holds(e, {ZONE: zone}) for e in t["match_expressions"] if e["key"] == ZONE) for t in terms)
        return [z for z in zones if allowed(z)]

    def zones(self):
        placed = [p for p in sorted(self.problem["pods"], key=lambda p: p["index"]) if p["uid"] in self.node_of]
        groups = {}
        for p in placed:
            for c in p["topology_spread"] + p["pod_affinity"] + p["pod_anti_affinity"]:
                if c["key"] == ZONE:
                    groups.setdefault((p["namespace"], json.dumps(c["selector"], sort_keys=True)),
                                      (c["selector"], collections.Counter()))
        final = {key: collections.Counter(self.zone(p["uid"]) for p in placed
                                          if p["namespace"] == key[0] and selects(sel, p["labels"]))
                 for key, (sel, _) in groups.items()}
        repelling = collections.defaultdict(set)
        for p in placed:
            zone = self.zone(p["uid"])
            own = lambda c: (p["namespace"], json.dumps(c["selector"], sort_keys=True))
            for s in p["topology_spread"]:
                if s["key"] != ZONE or s["when_unsatisfiable"] != "DoNotSchedule":
                    continue
                counts = groups[own(s)][1]
                self_match = 1 if selects(s["selector"], p["labels"]) else 0
                skew = counts[zone] + self_match - min(counts[z] for z in self.universe(p))
                if skew > s["max_skew"]:
                    self.fault(f"{p['uid']} makes a zone skew of {skew}")
            for a in p["pod_affinity"]:
                if a["key"] != ZONE:
                    self.fault(f"{p['uid']} has an affinity that is not checked")
                    continue
                self_match = 1 if selects(a["selector"], p["labels"]) else 0
                counts = final[own(a)]
                alone = sum(counts.values()) - self_match == 0
                if counts[zone] - self_match <= 0 and not (alone and self_match):
                    self.fault(f"{p['uid']} is in a zone without the pods of its affinity")
            for a in p["pod_anti_affinity"]:
                if a["key"] == ZONE and groups[own(a)][1][zone] > 0:
                    self.fault(f"{p['uid']} repels a pod of its zone")
            for key, (sel, counts) in groups.items():
                if p["namespace"] == key[0] and selects(sel, p["labels"]):
                    if (key, zone) in repelling:
                        self.fault(f"{p['uid']} is repelled in its zone")
                    counts[zone] += 1
            for a in p["pod_anti_affinity"]:
                if a["key"] == ZONE:
                    repelling[(own(a), zone)].add(p["uid"])

    def refused(self):
        """A refused pod that no zone constraint concerns must fit on no new node."""
        repelling = [(p["namespace"], a["selector"]) for p in self.problem["pods"] for a in p["pod_anti_affinity"] if a["key"] == ZONE]
        for uid in self.answer["errors"]:
            p = self.pods.get(uid)
            if p is None or any(c["key"] == ZONE for c in p["topology_spread"] + p["pod_affinity"] + p["pod_anti_affinity"]):
                continue
            if not tolerated(p, self.pool.get("taints") or []):
                continue
            if any(space == p["namespace"] and selects(selector, p["labels"]) for space, selector in repelling):
                continue
            for kind in self.types.values():
                for o in kind["offerings"]:
                    labels = dict(self.pool.get("labels") or {})
                    labels.update({r["key"]: r["values"][0] for r in kind["requirements"] if r["op"] == "In"})
                    labels.update({ZONE: o["zone"], "karpenter.sh/capacity-type": o["capacity_type"]})
                    if not all(holds(r, labels) for r in self.pool.get("requirements") or []):
                        continue
                    if o["available"] and admits(p, labels) and not self.fits(kind, [p]):
                        self.fault(f"{uid} is refused, and {kind['name']} in {o['zone']} could hold it")
                        return

    def sums(self):
        price = sum(n["instance_type_options_cheapest"]["price"] for n in self.answer["nodes"])
        if abs(price - self.answer["total_price"]) > MONEY * max(1, price):
            self.fault(f"total_price is {self.answer['total_price']}, and the nodes cost {price}")
        if "cost" in self.answer:
            cost = price + self.node_price * len(self.answer["nodes"])
            if abs(cost - self.answer["cost"]) > MONEY * max(1, cost):
                self.fault(f"cost is {self.answer['cost']}, not {cost}")
            if self.answer["bound"] > self.answer["cost"] * (1 + MONEY):
                self.fault("the bound is above the cost")


def main():
    node_price = float(sys.argv[4]) if len(sys.argv) == 5 and sys.argv[3] == "--node-price" else 0.0
    faults = Checker(load(sys.argv[1]), load(sys.argv[2]), node_price).run()
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
