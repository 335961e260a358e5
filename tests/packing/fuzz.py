#!/usr/bin/env python3
"""Packs random inputs of many kinds with qm-pack, and has each answer checked by check.py.

    fuzz.py QM_PACK [SECONDS] [FIRST SEED]

Prints the seed and the faults of each input whose answer is wrong, and exits with 1 if there are any. The same seed
gives the same input: fuzz.py QM_PACK 0 SEED packs it alone and leaves it in fuzz-SEED.json.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import check

GIB = 1 << 30
ZONES = ["a", "b", "c", "d"]


def one_in(dice, n):
    return dice.randrange(n) == 0


def selector(dice, apps):
    if one_in(dice, 4):
        op = dice.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = dice.sample(apps, min(len(apps), 2)) if op in ("In", "NotIn") else []
        return {"match_labels": {}, "match_expressions": [{"key": "app", "op": op, "values": values}]}
    return {"match_labels": {"app": dice.choice(apps)}, "match_expressions": []}


def expression(dice):
    key, values = dice.choice([("kind", ["small", "large"]), ("size", ["2", "4", "8", "16"]), (check.ZONE, ZONES),
                               ("team", ["x", "y"]), ("karpenter.sh/capacity-type", ["spot", "on-demand"])])
    op = dice.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"] + (["Gt", "Lt", "Gte", "Lte"] if key == "size" else []))
    some = [] if op in ("Exists", "DoesNotExist") else dice.sample(values, 1 if key == "size" and op[0] in "GL" else dice.randint(1, 2))
    return {"key": key, "op": op, "values": some}


def instance_type(dice, number, zones):
    cpu = dice.choice([1, 2, 4, 8, 16, 32])
    gpus = dice.choice([0, 0, 0, 1, 2, 4, 8])
    extended = {"nvidia.com/gpu": gpus} if gpus else {}
    if one_in(dice, 4):
        extended["vpc.amazonaws.com/efa"] = dice.randint(1, 4)
    price = cpu * dice.uniform(0.02, 0.06) + gpus * dice.uniform(0.3, 1.5)
    offerings = []
    for zone in zones:
        for capacity in ("on-demand", "spot"):
            if one_in(dice, 6):
                continue
            factor = (0.4 if capacity == "spot" else 1) * (1 if one_in(dice, 2) else dice.uniform(0.9, 1.2))
            offerings.append({"zone": zone, "capacity_type": capacity, "price": price * factor, "available": not one_in(dice, 6)})
    requirements = [{"key": "kind", "op": "In", "values": ["large" if cpu > 4 else "small"]},
                    {"key": "size", "op": "In", "values": [str(cpu)]}]
    if one_in(dice, 4):
        requirements.append({"key": "kubernetes.io/os", "op": "In", "values": ["linux", "windows"]})
    return {"name": f"t{number}", "cpu_m": cpu * 1000, "mem_bytes": cpu * dice.choice([1, 2, 4, 8]) * GIB,
            "pods": dice.choice([4, 10, 30, 110]), "overhead_cpu_m": dice.choice([0, 100, 420]),
            "overhead_mem_bytes": dice.choice([0, GIB // 8]), "extended": extended, "offerings": offerings,
            "requirements": requirements}


def pod(dice, apps, level, spread_kinds):
    out = {"namespace": dice.choice(["default", "default", "other"]), "cpu_m": dice.choice([0, 50, 100, 250, 500, 1000, 1500, 3000]),
           "mem_bytes": dice.choice([0, GIB // 10, GIB // 4, GIB, 2 * GIB, 4 * GIB, 7 * GIB]), "extended": {},
           "labels": {"app": dice.choice(apps)} if not one_in(dice, 5) else {}, "node_selector": {}, "required_terms": [],
           "preferred_terms": [], "tolerations": [], "topology_spread": [], "pod_affinity": [], "pod_anti_affinity": []}
    if one_in(dice, 3):
        out["extended"]["nvidia.com/gpu"] = dice.choice([1, 1, 1, 2, 4, 8])
    if one_in(dice, 8):
        out["extended"]["vpc.amazonaws.com/efa"] = dice.randint(1, 2)
    if level > 0 and one_in(dice, 4):
        key, values = dice.choice([("kind", ["small", "large"]), ("team", ["x", "y"]), (check.ZONE, ZONES)])
        out["node_selector"][key] = dice.choice(values)
    if level > 0 and one_in(dice, 3):
        out["required_terms"] = [{"match_expressions": [expression(dice) for _ in range(dice.randint(1, 2))]}
                                 for _ in range(dice.randint(1, 3))]
    if level > 0 and one_in(dice, 5):
        out["preferred_terms"] = [{"weight": dice.randint(1, 100), "match_expressions": [expression(dice)]}]
    if not one_in(dice, 6):
        out["tolerations"] = [dice.choice([{"operator": "Exists"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                                           {"key": "gpu", "operator": "Equal", "value": "yes"}])]
    if level > 1 and one_in(dice, 2):
        out["topology_spread"] = [{"key": dice.choice(spread_kinds), "max_skew": dice.randint(1, 3), "selector": selector(dice, apps),
                                   "when_unsatisfiable": "ScheduleAnyway" if one_in(dice, 6) else "DoNotSchedule"}
                                  for _ in range(dice.randint(1, 2))]
    if level > 1 and one_in(dice, 5):
        out["pod_anti_affinity"] = [{"key": dice.choice(spread_kinds), "selector": selector(dice, apps)}]
    if level > 1 and check.ZONE in spread_kinds and one_in(dice, 6):
        out["pod_affinity"] = [{"key": check.ZONE, "selector": selector(dice, apps)}]
    return out


def problem_of(seed):
    dice = random.Random(seed)
    zones = ZONES[:dice.randint(1, 4)]
    apps = [f"app-{i}" for i in range(dice.choice([1, 2, 5]))]
    level = dice.randint(0, 2)
    spread_kinds = dice.choice([[check.HOST], [check.ZONE], [check.ZONE, check.HOST]])
    types = [instance_type(dice, i, zones) for i in range(dice.choice([0, 1, 2, 5, 20]) if not one_in(dice, 10) else 60)]
    pods = []
    for _ in range(dice.choice([0, 1, 2, 5, 12, 40])):
        like = pod(dice, apps, level, spread_kinds)
        pods += [json.loads(json.dumps(like)) for _ in range(dice.choice([1, 1, 1, 2, 5, 20]))]
    dice.shuffle(pods)
    for i, one in enumerate(pods):
        one.update(index=i, uid=f"pod-{i}")
    taints = [{"key": "gpu", "value": "yes", "effect": dice.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])}]
    pool = {"labels": {"team": "x"} if one_in(dice, 3) else {}, "requirements": [], "taints": taints if one_in(dice, 3) else []}
    if one_in(dice, 4):
        pool["requirements"] = [dice.choice([{"key": "team", "op": "Exists", "values": []},
                                             {"key": "karpenter.sh/capacity-type", "op": "In", "values": ["on-demand"]},
                                             {"key": "size", "op": "Gt", "values": ["2"]}])]
        if "team" in pool["labels"]:
            pool["labels"] = {}
    return {"types": types, "pods": pods, "nodepool": pool}


def packed(binary, folder, problem, options):
    source, answer = os.path.join(folder, "input.json"), os.path.join(folder, "answer.json")
    with open(source, "w") as file:
        json.dump(problem, file)
    done = subprocess.run([binary, "--input", source, "--out", answer] + options, capture_output=True, text=True)
    if done.returncode != 0:
        return None, [f"exit code {done.returncode}: {done.stderr.strip()[:300]}"]
    answer = check.load(answer)
    return answer, check.Checker(problem, answer, answer["node_price"]).run()


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60
    seed, end, wrong, cases = int(sys.argv[3]) if len(sys.argv) > 3 else 1, time.time() + seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            problem = problem_of(seed)
            options = [[], [], ["--node-price", "0.05"], ["--node-price", "2%"]][seed % 4]
            _, faults = packed(binary, folder, problem, options)
            if faults:
                wrong += 1
                print(f"seed {seed} ({len(problem['types'])} types, {len(problem['pods'])} pods, {' '.join(options)}): {faults[:3]}", flush=True)
            if seconds == 0:
                with open(f"fuzz-{seed}.json", "w") as file:
                    json.dump(problem, file)
            seed, cases = seed + 1, cases + 1
            if time.time() >= end:
                break
    print(f"{cases} inputs, {wrong} with faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
