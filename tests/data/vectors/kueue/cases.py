#!/usr/bin/env python3
"""Writes the tables of this folder: one small case for each rule, with the decision that the rule gives.

    python3 tests/data/vectors/kueue/cases.py

The decisions are worked out by hand from Kueue's documentation; `why` says how. The record format is that of the replays in
services/admission/vectors, in which `test` names the part of Kueue that decides.
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = {}


def case(suite, test, name, why, input, expected, observed=None):
    record = {"suite": suite, "test": test, "name": name, "why": why, "featureGates": {}, "input": input, "expected": expected}
    if observed is not None:
        record["observed"] = observed
    SUITES.setdefault(suite, []).append(record)


# ---- objects ----

def quota(nominal, borrow=None, lend=None):
    out = {"nominalQuota": str(nominal)}
    if borrow is not None:
        out["borrowingLimit"] = str(borrow)
    if lend is not None:
        out["lendingLimit"] = str(lend)
    return out


def group(flavors):
    """{flavor: {resource: quota}}, all flavors with the same resources."""
    resources = list(next(iter(flavors.values())))
    return {"coveredResources": resources,
            "flavors": [{"name": f, "resources": [{"name": r, **q} for r, q in of.items()]} for f, of in flavors.items()]}


def queue(name, flavors, cohort=None, within="Never", reclaim="Never", weight="1", strategy="BestEffortFIFO", **spec):
    out = {"resourceGroups": [group(flavors)], "queueingStrategy": strategy, "stopPolicy": "None", "namespaceSelector": {},
           "fairSharing": {"weight": weight},
           "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
           "preemption": {"withinClusterQueue": within, "reclaimWithinCohort": reclaim,
                          "borrowWithinCohort": {"policy": "Never"}}}
    if cohort:
        out["cohortName"] = cohort
    out.update(spec)
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": out}


def cohort(name, flavors=None, parent=None):
    spec = {}
    if flavors:
        spec["resourceGroups"] = [group(flavors)]
    if parent:
        spec["parentName"] = parent
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def flavor(name, **spec):
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, **({"spec": spec} if spec else {})}


def at(seconds):
    return f"2026-03-01T08:{seconds // 60:02}:{seconds % 60:02}Z"


def pods(requests, count=1, name="main", **more):
    return {"name": name, "count": count, **more,
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "resources": {"requests": {r: str(q) for r, q in requests.items()}}}]}}}


def workload(name, sets, priority=0, local=None, created=0, namespace="lab"):
    out = {"kind": "Workload", "metadata": {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": at(created)},
           "spec": {"active": True, "priority": priority, "podSets": sets}}
    if local:
        out["spec"]["queueName"] = local
    return out


def admitted(name, in_queue, requests, priority=0, since=0, on="std", local=None):
    """One pod that holds quota since then."""
    out = workload(name, [pods(requests)], priority, local)
    out["status"] = {
        "admission": {"clusterQueue": in_queue, "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {r: on for r in requests},
             "resourceUsage": {r: str(q) for r, q in requests.items()}}]},
        "conditions": [{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at(since)}
                       for kind in ("QuotaReserved", "Admitted")]}
    return out


def std(nominal, **limits):
    return {"std": {"cpu": quota(nominal, **limits)}}


# ---- preemption: the victims of a workload that does not fit ----

def victims(name, why, queues, holders, incoming, to, targets, fair=False, cohorts=()):
    wanted = [f"/{victim}:{reason}" for victim, reason in targets]
    for one in holders + [incoming]:
        del one["metadata"]["namespace"]
    case("preemption", "Victims", name, why,
         {"clusterQueues": queues, "cohorts": list(cohorts), "resourceFlavors": [flavor("std")], "admitted": holders,
          "incoming": incoming, "targetCQ": to, "fairSharing": fair, "strategies": None,
          "assignment": {"podSets": [{"name": "main", "count": 1, "flavors": {"cpu": {"name": "std", "mode": "Preempt"}}}]}},
         {"wantPreempted": wanted},
         {"targets": [{"workload": f"/{victim}", "reason": reason} for victim, reason in targets]})


def cpu(name, n, priority=0):
    return workload(name, [pods({"cpu": n})], priority)


OWN, RECLAIM, SHARE = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"

victims("the lowest priority is preempted first", "4 of 4 are held, 2 are asked: the holder of priority 1 has them, and comes first.",
        [queue("ml", std(4), within="LowerPriority")],
        [admitted("low", "ml", {"cpu": 2}, 1), admitted("mid", "ml", {"cpu": 2}, 5)], cpu("new", 2, 9), "ml", [("low", OWN)])
victims("equal priority is kept under LowerPriority", "No holder is below priority 5.",
        [queue("ml", std(4), within="LowerPriority")],
        [admitted("a", "ml", {"cpu": 2}, 5), admitted("b", "ml", {"cpu": 2}, 7)], cpu("new", 2, 5), "ml", [])
victims("no victim under Never", "The policy allows no candidate.",
        [queue("ml", std(4))], [admitted("a", "ml", {"cpu": 4}, 0)], cpu("new", 2, 100), "ml", [])
victims("a victim that turns out to be unneeded is given back",
        "`small` has the lowest priority and is taken first, `large` then makes room for 3. Without `small` it still fits.",
        [queue("ml", std(4), within="LowerPriority")],
        [admitted("small", "ml", {"cpu": 1}, 0), admitted("large", "ml", {"cpu": 3}, 1)], cpu("new", 3, 5), "ml",
        [("large", OWN)])
victims("two victims where one is not enough", "4 are asked: both holders of 2 go.",
        [queue("ml", std(6), within="LowerPriority")],
        [admitted("a", "ml", {"cpu": 2}, 1), admitted("b", "ml", {"cpu": 2}, 2), admitted("c", "ml", {"cpu": 2}, 8)],
        cpu("new", 4, 5), "ml", [("a", OWN), ("b", OWN)])
victims("not even all candidates make room", "Only 2 of the 4 that are asked could be freed, so nothing is done.",
        [queue("ml", std(6), within="LowerPriority")],
        [admitted("a", "ml", {"cpu": 2}, 1), admitted("c", "ml", {"cpu": 4}, 8)], cpu("new", 4, 5), "ml", [])
victims("quota is reclaimed from a queue that borrows",
        "`ops` has 6 where 4 are its own. `ml` asks 4 of its own 4; 2 of 8 are free, and the lower priority goes.",
        [queue("ml", std(4), "org", reclaim="Any"), queue("ops", std(4), "org")],
        [admitted("b1", "ops", {"cpu": 4}, 3), admitted("b2", "ops", {"cpu": 2}, 1)], cpu("new", 4, 0), "ml",
        [("b2", RECLAIM)])
victims("of equal priorities the one with quota for the shorter time goes",
        "Both have 2 and priority 0; `later` was admitted a minute after.",
        [queue("ml", std(4), "org", reclaim="Any"), queue("ops", std(2), "org")],
        [admitted("earlier", "ops", {"cpu": 2}, 0, since=10), admitted("later", "ops", {"cpu": 2}, 0, since=70)],
        cpu("new", 4, 0), "ml", [("later", RECLAIM)])
victims("a queue within its nominal quota is left alone", "`ops` has 4 of its own 4; `ml` would borrow, and may not reclaim.",
        [queue("ml", std(4), "org", reclaim="Any"), queue("ops", std(4), "org")],
        [admitted("b", "ops", {"cpu": 4}), admitted("m", "ml", {"cpu": 3})], cpu("new", 2, 9), "ml", [])
victims("reclaiming under LowerPriority", "`ops` borrows 4; the holder of priority 5 is not below 5, the one of 2 is.",
        [queue("ml", std(4), "org", reclaim="LowerPriority"), queue("ops", std(4), "org")],
        [admitted("b1", "ops", {"cpu": 6}, 5), admitted("b2", "ops", {"cpu": 2}, 2)], cpu("new", 2, 5), "ml",
        [("b2", RECLAIM)])
victims("fair sharing takes from the larger share",
        "All 10 are lent. `ml` would have 3 of 10, `ops` has 9 and 6 without one: 3 is no more than 6.",
        [queue("ml", std(0), "org", reclaim="Any"), queue("ops", std(0), "org", reclaim="Any"), queue("lender", std(10), "org")],
        [admitted("b1", "ops", {"cpu": 3}, 2), admitted("b2", "ops", {"cpu": 3}, 1), admitted("b3", "ops", {"cpu": 3}, 3)],
        cpu("new", 3, 0), "ml", [("b2", SHARE)], fair=True)
victims("fair sharing does not turn the shares around",
        "`ml` would have 6 of 10, `ops` has 5 and 0 without its one: 6 is more than 0, and 6 is not less than 5.",
        [queue("ml", std(0), "org", reclaim="Any"), queue("ops", std(0), "org", reclaim="Any"), queue("lender", std(10), "org")],
        [admitted("b1", "ops", {"cpu": 5})], cpu("new", 6, 0), "ml", [], fair=True)


def may(policy, mine, other, mine_at, other_at, want):
    one, two = workload("mine", [pods({})], mine, created=mine_at), workload("other", [pods({})], other, created=other_at)
    case("preemption", "TestSatisfiesPreemptionPolicy", f"{policy}: {mine} made at {mine_at}, the other {other} at {other_at}",
         "LowerPriority takes what is below, LowerOrNewerEqualPriority also what is equal and newer, Any all, Never nothing.",
         {"policy": policy, "preemptor": one, "candidate": two}, {"want": want})


for policy, equal_newer, equal_older, lower, higher in [("Never", False, False, False, False), ("Any", True, True, True, True),
                                                        ("LowerPriority", False, False, True, False),
                                                        ("LowerOrNewerEqualPriority", True, False, True, False)]:
    may(policy, 5, 5, 10, 20, equal_newer)
    may(policy, 5, 5, 20, 10, equal_older)
    may(policy, 5, 4, 20, 10, lower)
    may(policy, 5, 6, 10, 20, higher)

case("preemption", "TestCandidatesOrdering", "other queues first, then priority, then the time of admission",
     "Workloads of other queues come before those of the own queue; in each the lower priority, then the later admission.",
     {"preemptorCQ": "ml", "admissionFairSharingEnabled": False, "candidates": [
         {"clusterQueue": one["status"]["admission"]["clusterQueue"], "obj": one} for one in (
             admitted("own-low", "ml", {"cpu": 1}, 0, 10), admitted("own-high", "ml", {"cpu": 1}, 3, 20),
             admitted("other-high", "ops", {"cpu": 1}, 9, 10), admitted("other-early", "ops", {"cpu": 1}, 2, 10),
             admitted("other-late", "ops", {"cpu": 1}, 2, 30))]},
     {"wantCandidates": ["other-late", "other-early", "other-high", "own-low", "own-high"]})
case("preemption", "TestMakeClusterQueueOrdering", "the larger share first, until it has nothing more",
     "Of 10 lent `big` has 6 (600) and `small` has 3 (300). Popping a candidate alone frees nothing, so `big` goes on.",
     {"clusterQueues": [queue("ml", std(10), "org"), queue("big", std(0), "org"), queue("small", std(0), "org")],
      "resourceFlavors": [flavor("std")], "fairSharing": True, "preemptorCQ": "ml", "candidateCQs": ["big", "small"],
      "admitted": [admitted("b1", "big", {"cpu": 4}, 0), admitted("b2", "big", {"cpu": 2}, 1), admitted("s", "small", {"cpu": 3})],
      "actions": ["pop", "pop", "pop"]},
     {"wantOrder": ["big", "big", "small"]})


# ---- quota: what is available and what a share is ----

def available(name, why, queues, usage, left, most, cohorts=()):
    milli = lambda of: {q: {"std/cpu": 1000 * n} for q, n in of.items()}
    case("quota", "TestAvailable", name, why,
         {"clusterQueues": queues, "cohorts": list(cohorts), "resourceFlavors": [flavor("std")], "usage": milli(usage)},
         {"wantAvailable": milli(left), "wantPotentiallyAvailable": milli(most)})


available("alone", "5 less 2.", [queue("a", std(5))], {"a": 2}, {"a": 3}, {"a": 5})
available("more in use than there is", "The quota was lowered to 5 while 7 are in use; a queue in debt has nothing available, and not less.", [queue("a", std(5))], {"a": 7},
          {"a": 0}, {"a": 5})
available("limits on borrowing and lending",
          "The cohort has its own 4, 6 of `a` and 5 that `b` lends: 15. `a` may have 6 + 3. `b` keeps 3 for itself and may have "
          "all 15 more; of its 4 in use 1 is from the cohort, which leaves 14.",
          [queue("a", std(6, borrow=3), "org"), queue("b", std(8, lend=5), "org")], {"b": 4}, {"a": 9, "b": 14},
          {"a": 9, "b": 18}, [cohort("org", std(4))])
available("what borrowing uses up", "10 in all, 7 in use by `a`: 3 are left for each.",
          [queue("a", std(6), "org"), queue("b", std(4), "org")], {"a": 7}, {"a": 3, "b": 3}, {"a": 10, "b": 10})
available("a tree of cohorts", "`a` has 3 through `left`, `b` has 5 through `right`, the root has 2: 10 in all, 4 in use.",
          [queue("a", std(3), "left"), queue("b", std(5), "right")], {"a": 4}, {"a": 6, "b": 6}, {"a": 10, "b": 10},
          [cohort("left", None, "root"), cohort("right", None, "root"), cohort("root", std(2))])


def share(name, why, weight, usage, want, of_cpu=(5, 15), of_gpu=(2, 4)):
    both = lambda i: {"std": {"cpu": quota(of_cpu[i]), "example.com/gpu": quota(of_gpu[i])}}
    case("quota", "TestDominantResourceShare", name, why,
         {"clusterQueues": [queue("a", both(0), "org", weight=weight), queue("b", both(1), "org")],
          "resourceFlavors": [flavor("std")], "usageClusterQueue": "a", "flvResQ": None, "usage": usage},
         {"want": [{"name": "a", "nodeType": "ClusterQueue", **want}]})


share("within nominal quota", "5 of 5 and 2 of 2: nothing is borrowed.", "1", {"std/cpu": 5000, "std/example.com/gpu": 2},
      {"drValue": 0, "drName": "", "borrowing": False})
share("one resource", "4 borrowed of 20 that can be lent are 200 of 1000.", "1", {"std/cpu": 9000},
      {"drValue": 200, "drName": "cpu", "borrowing": True})
share("weight 2 halves it", "200 by 2.", "2", {"std/cpu": 9000}, {"drValue": 100, "drName": "cpu", "borrowing": True})
share("the larger of two", "4 of 20 CPUs are 200, 3 of 6 GPUs are 500.", "1", {"std/cpu": 9000, "std/example.com/gpu": 5},
      {"drValue": 500, "drName": "example.com/gpu", "borrowing": True})
share("weight 0 is without bound", "Whatever is borrowed counts as infinite.", "0", {"std/cpu": 6000},
      {"drValue": 2**63 - 1, "drName": "cpu", "borrowing": True})
for used, borrowing in ((5000, False), (5001, True)):
    case("quota", "TestIsBorrowingOn", f"{used} of 5000 milli-CPU in use", "A queue borrows what goes beyond its nominal quota.",
         {"clusterQueues": [queue("a", std(5), "org"), queue("b", std(5), "org")], "resourceFlavors": [flavor("std")],
          "usageClusterQueue": "a", "usage": {"std/cpu": used}, "requestedFRs": {"std/cpu": 1}},
         {"wantBorrowing": borrowing, "wantBorrowingOnRequested": borrowing})


# ---- order: which nominee goes first, and what is reserved for one that waits ----

def nominee(name, priority, created, borrowing):
    return {"info": {"clusterQueue": "", "obj": workload(name, [], priority, created=created, namespace="")},
            "assignment": {"borrowing": borrowing}, "isPreemptor": False}


case("order", "TestEntryOrdering", "no borrowing, then priority, then age",
     "What borrows goes last whatever its priority; among the others 5 before 1, and of the two with 5 the older one.",
     {"input": [nominee("one", 1, 0, 0), nominee("borrower", 9, 1, 1), nominee("young", 5, 40, 0), nominee("old", 5, 20, 0)],
      "workloadOrdering": {}},
     {"wantOrder": ["old", "young", "one", "borrower"]})


def reserved(name, why, mode, borrowing, asked, kept, limit=None):
    case("order", "TestResourcesToReserve", name, why,
         {"clusterQueues": [queue("a", std(10, borrow=limit), "org")], "resourceFlavors": [flavor("std")],
          "cqUsage": {"std/cpu": 7000}, "assignmentMode": mode, "borrowing": borrowing, "assignmentUsage": {"std/cpu": asked}},
         {"wantReserved": {"std/cpu": kept}})


reserved("all of it where it fits", "It fits: all 5 are kept.", "Fit", 0, 5000, 5000)
reserved("what is left of nominal quota", "It waits for victims without borrowing: 10 less 7 is all that is kept.", "Preempt", 0,
         5000, 3000)
reserved("up to the borrowing limit", "It waits and borrows: 10 + 1 less 7 are kept.", "Preempt", 1, 5000, 4000, limit=1)
reserved("without a limit", "It waits and borrows without a limit: all 5 are kept.", "Preempt", 1, 5000, 5000)

# ---- flavors: which one, in which mode ----


def preferred(mode, level, other, other_level, want, preference=None):
    case("flavors", "TestIsPreferred", f"{mode} {level} before {other} {other_level}, {preference or 'by default'}",
         "The mode decides and then the level of borrowing; with PreemptionOverBorrowing the other way round.",
         {"a": {"preemptionMode": mode, "borrowingLevel": level}, "b": {"preemptionMode": other, "borrowingLevel": other_level},
          "config": {"preference": preference or ""}}, {"wantPreferred": want})


preferred("fit", 0, "preempt", 0, True)
preferred("preempt", 0, "reclaim", 0, False)
preferred("fit", 1, "preempt", 0, True)
preferred("fit", 1, "preempt", 0, False, "PreemptionOverBorrowing")
preferred("fit", 1, "fit", 0, False)
preferred("fit", 1, "fit", 2, True)
preferred("fit", 2, "noFit", 0, True, "PreemptionOverBorrowing")


def search(name, sets, limit, found, count):
    case("flavors", "TestSearch", name, "All counts go down together from what is wanted to the least, and the first that fits counts.",
         {"countLimit": limit, "podSets": [{"name": f"s{i}", "count": most, **({"minCount": least} if least else {})}
                                           for i, (most, least) in enumerate(sets)]},
         {"wantFound": found, "wantCount": count})


search("all fit", [(6, 2)], 6, True, 6)
search("as many as fit", [(6, 2)], 4, True, 4)
search("just the least", [(6, 2)], 2, True, 2)
search("not even the least", [(6, 2)], 1, False, 0)
search("one set cannot go down", [(5, None), (4, 1)], 7, True, 7)


def assigned(name, why, flavors, asked, used, choice, mode, usage, attempts, tried, reasons=(), no_fit=""):
    flavor_of = {"cpu": {"name": choice, "mode": mode, "borrow": 0, "triedFlavorIdx": tried}} if choice else {}
    case("flavors", "TestAssignFlavors", name, why,
         {"clusterQueue": queue("a", flavors), "resourceFlavors": [flavor(f) for f in flavors], "clusterQueueUsage": used,
          "wlPods": [pods({"cpu": asked})]}, {},
         {"assignment": {"representativeMode": mode, "noFitReason": no_fit, "borrowing": 0, "podSets": [
             {"name": "main", "count": 1, "flavors": flavor_of, "flavorAssignmentAttempts": attempts,
              "status": {"reasons": list(reasons)}}], "usage": {"quota": {"assigned": usage}}}})


TWO = {"spot": {"cpu": quota(3)}, "base": {"cpu": quota(8)}}
assigned("the first that fits", "3 fit into `spot`, and nothing behind it is looked at.", TWO, 3, {}, "spot", "Fit", {"spot/cpu": 3000},
         [{"flavor": "spot", "mode": "Fit", "borrow": 0, "noFitReason": ""}], 0)
assigned("the next where the first is too small",
         "4 are more than `spot` ever has; `base` is the last in the list, so the search is through (-1).", TWO, 4, {}, "base", "Fit",
         {"base/cpu": 4000}, [{"flavor": "base", "mode": "Fit", "borrow": 0, "noFitReason": ""}], -1)
assigned("the next where the first is in use", "2 of 3 are in use in `spot`; 2 more fit into `base`.", TWO, 2, {"spot/cpu": 2000},
         "base", "Fit", {"base/cpu": 2000}, [{"flavor": "base", "mode": "Fit", "borrow": 0, "noFitReason": ""}], -1)

# ---- whole cycles ----


def cycle(suite, name, why, queues, workloads, done, preempted=None, pending=None, left=None, cohorts=(), **more):
    """`done`: {workload: (queue, {pod set: (count, {resource: flavor}[, nodes])})}."""
    summary = {"admitted": {}, "preempted": {}, "pending": {}}
    for key, (to, sets) in done.items():
        summary["admitted"][f"lab/{key}"] = {"clusterQueue": to, "podSets": {
            n: {"count": s[0], "flavors": s[1], **({"topologyAssignment": s[2]} if len(s) > 2 else {})} for n, s in sets.items()}}
    for key, reason in (preempted or {}).items():
        summary["preempted"][f"lab/{key}"] = {"reason": reason, "evictedReason": "Preempted"}
    for key, reason in (pending or {}).items():
        summary["pending"][f"lab/{key}"] = {"reason": reason, "message": ""}
    observed = {"summary": summary}
    if left is not None:
        observed["left"] = {q: [f"lab/{key}" for key in keys] for q, keys in left.items()}
    input = {"clusterQueues": queues, "cohorts": list(cohorts), "namespaces": [{"name": "lab"}], "cycles": 1,
             "localQueues": [{"kind": "LocalQueue", "metadata": {"name": q["metadata"]["name"], "namespace": "lab"},
                              "spec": {"clusterQueue": q["metadata"]["name"]}} for q in queues],
             "resourceFlavors": [flavor("std")], "workloads": workloads}
    input.update(more)
    case(suite, "TestSchedule", name, why, input, {}, observed)


def job(name, local, n, priority=0, created=0, count=1):
    return workload(name, [pods({"cpu": n}, count)], priority, local, created)


ONE = {"main": (1, {"cpu": "std"})}
cycle("cycle", "the head of each queue", "One workload of each queue is looked at: the older of `a`, and that of `b`.",
      [queue("a", std(8)), queue("b", std(8))],
      [job("a-old", "a", 2, created=1), job("a-new", "a", 2, created=2), job("b", "b", 2, created=3)],
      {"a-old": ("a", ONE), "b": ("b", ONE)}, left={"a": ["a-new"]})
cycle("cycle", "priority before age", "Both wait in one queue; the younger one has the higher priority.", [queue("a", std(2))],
      [job("old", "a", 2, 0, 1), job("urgent", "a", 2, 5, 2)], {"urgent": ("a", ONE)}, left={"a": ["old"]})
cycle("cycle", "what borrows comes after what does not",
      "`ml` asks 6 of its 4, `ops` asks 4 of its 4. `ops` goes first though it is younger; 4 of 8 are then too few for 6.",
      [queue("ml", std(4), "org"), queue("ops", std(4), "org")],
      [job("borrower", "ml", 6, created=1), job("owner", "ops", 4, created=2)], {"owner": ("ops", ONE)},
      pending={"borrower": "WaitingForQuota"})
cycle("cycle", "borrowing what is free in the cohort", "`ml` asks 6 of its 4, and the 8 of the cohort are free.",
      [queue("ml", std(4), "org"), queue("ops", std(4), "org")], [job("borrower", "ml", 6)], {"borrower": ("ml", ONE)})
cycle("cycle", "a lower priority is preempted", "All 4 are held by priority 1; priority 3 may preempt and waits for the victim's end.",
      [queue("a", std(4), within="LowerPriority")],
      [admitted("held", "a", {"cpu": 4}, 1, local="a"), job("new", "a", 2, 3, 50)], {}, {"held": OWN},
      {"new": "WaitingForPreemptedWorkloads"})
cycle("cycle", "without preemption it waits", "The same, but the queue never preempts.", [queue("a", std(4))],
      [admitted("held", "a", {"cpu": 4}, 1, local="a"), job("new", "a", 2, 3, 50)], {}, pending={"new": "WaitingForQuota"})
cycle("cycle", "more than there will ever be", "6 are asked where the queue has 4 and no cohort.", [queue("a", std(4))],
      [job("huge", "a", 6)], {}, pending={"huge": "ExceedsMaxQuota"}, left={})
cycle("cycle", "all pods or none", "3 pods of 2 are 6 of 5, though two of them would fit.", [queue("a", std(5))],
      [job("gang", "a", 2, count=3)], {}, pending={"gang": "ExceedsMaxQuota"})
cycle("cycle", "a stopped queue admits nothing", "Its stop policy is Hold.", [queue("a", std(4), stopPolicy="Hold")],
      [job("job", "a", 1)], {})

LEVELS = ["example.com/rack", "kubernetes.io/hostname"]


def nodes(racks):
    """{rack: {host: CPUs}}."""
    return [{"kind": "Node", "metadata": {"name": host, "labels": {LEVELS[0]: rack, LEVELS[1]: host, "pool": "gpu"}},
             "status": {"allocatable": {"cpu": str(n), "pods": "20"}, "conditions": [{"type": "Ready", "status": "True"}]}}
            for rack, hosts in racks.items() for host, n in hosts.items()]


def on_hosts(hosts):
    """In the form of the API: hosts alone, with how many pods each has."""
    return {"levels": [LEVELS[1]], "slices": [{"domainCount": len(hosts), "podCounts": {"individual": list(hosts.values())},
                                               "valuesPerLevel": [{"individual": {"roots": list(hosts)}}]}]}


def placed(name, why, racks, count, n, request, hosts, pending=None):
    done = {"gang": ("a", {"main": (count, {"cpu": "std"}, on_hosts(hosts))})} if hosts else {}
    cycle("cycle_tas", name, why, [queue("a", std(100))],
          [workload("gang", [pods({"cpu": n}, count, topologyRequest=request)], 0, "a")], done,
          pending={"gang": pending} if pending else None, nodes=nodes(racks),
          topologies=[{"kind": "Topology", "metadata": {"name": "hall"}, "spec": {"levels": [{"nodeLabel": x} for x in LEVELS]}}],
          resourceFlavors=[flavor("std", nodeLabels={"pool": "gpu"}, topologyName="hall")])


RACKS = {"r1": {"r1-a": 2, "r1-b": 1}, "r2": {"r2-a": 2, "r2-b": 2}}
placed("the one rack that has room", "4 pods of 1 in one rack: r1 has 3, r2 has 2 and 2.", RACKS, 4, 1, {"required": LEVELS[0]},
       {"r2-a": 2, "r2-b": 2})
placed("the tightest rack", "3 pods fit in both racks; r1 has just 3.", RACKS, 3, 1, {"required": LEVELS[0]}, {"r1-a": 2, "r1-b": 1})
placed("the tightest host", "1 pod on one host: r1-b has just 1.", RACKS, 1, 1, {"required": LEVELS[1]}, {"r1-b": 1})
placed("no rack has room", "5 pods of 1 where racks have 3 and 4; there is quota, so topology is the reason.", RACKS, 5, 1,
       {"required": LEVELS[0]}, None, "TopologyPlacementFailed")
placed("a preference is given up",
       "The same 5, but the rack is only preferred. Both racks are taken, and their hosts are filled together: of the three with "
       "2 the first two by name, and the last pod goes to the tightest host that has room.", RACKS, 5, 1, {"preferred": LEVELS[0]},
       {"r1-a": 2, "r1-b": 1, "r2-a": 2})

# ---- topology, by itself ----


def found(name, why, racks, sets, results):
    case("tas_unit", "TestFindTopologyAssignments", name, why,
         {"levels": LEVELS, "nodeLabels": {"pool": "gpu"}, "nodes": nodes(racks), "pods": [], "workload": None,
          "podSets": [{"podSetName": f"s{i}", "count": count, "requests": {"cpu": 1000 * n}, "topologyRequest": request}
                      for i, (count, n, request) in enumerate(sets)]},
         {"podSets": [{"podSetName": f"s{i}", "wantReason": "" if isinstance(r, dict) else r, "wantAssignment": None if not
                       isinstance(r, dict) else {"levels": [LEVELS[1]], "domains": [{"values": [h], "count": c} for h, c in r.items()]}}
                      for i, r in enumerate(results)]})


found("pods of 2 go where hosts have 2", "r1 has a single host of 2; 2 pods of 2 need r2.", RACKS, [(2, 2, {"required": LEVELS[0]})],
      [{"r2-a": 1, "r2-b": 1}])
found("a host for all", "Only r2-b has 6.", {"r1": {"r1-a": 5}, "r2": {"r2-a": 2, "r2-b": 6}}, [(6, 1, {"required": LEVELS[1]})],
      [{"r2-b": 6}])
for order, want in ((["x", "y"], ["y", "x"]), (["y", "x"], ["y", "x"])):
    free = {"x": 3, "y": 7}
    case("tas_unit", "TestSortedDomains", f"most room first, given {' '.join(order)}", "The domain with room for more pods comes first.",
         {"levels": [LEVELS[1]], "unconstrained": False,
          "domains": [{"domain": {"id": d, "levelValues": [d]}, "state": {"podCount": free[d], "sliceCount": free[d]}} for d in order]},
         {"wantOrder": want})
case("tas_unit", "TestTruncateAssignment", "pods go from the end", "3 of 2 + 2 are 2 + 1.",
     {"assignment": on_hosts({"h1": 2, "h2": 2}), "newCount": 3},
     {"want": on_hosts({"h1": 2, "h2": 1})})
case("tas_unit", "TestCountPodsInAssignment", "pods of all domains", "2 + 3.", {"assignment": on_hosts({"h1": 2, "h2": 3})}, {"want": 5})
case("tas_unit", "TestMergeTopologyAssignments", "counts of one host add up", "h1 is in both.",
     {"a": on_hosts({"h1": 2}), "b": on_hosts({"h1": 1, "h2": 4})}, {"want": on_hosts({"h1": 3, "h2": 4})})

# ---- gates: Kueue's own defaults of those that change decisions ----

ON = """AdmissionFairSharing AdmissionGatedBy ElasticJobsViaWorkloadSlices FairSharingPreemptWithinNominal
FairSharingPrioritizeNonBorrowing FlavorFungibility FlavorFungibilityPreserveScanProgress PartialAdmission
PrioritySortingWithinCohort QuotaCheckStrategy ReclaimablePods RecomputeAssignmentUponPreemptionTargetsOverlap
SchedulingEquivalenceHashing SkipReassignmentForPodOwnedWorkloads TASFailedNodeReplacement TASFailedNodeReplacementFailFast
TASHandleOverlappingFlavors TASMultiLayerTopology TASProfileMixed TASRecomputeAssignmentWithinSchedulingCycle
TopologyAwareScheduling UnadmittedWorkloadsObservability""".split()
OFF = """ConcurrentAdmission ElasticJobsViaWorkloadSlicesWithTAS MultiKueueOrchestratedPreemption PrioritizePreemptorWorkloads
PriorityBoost TASBalancedPlacement TASRespectNodeAffinityPreferred""".split()

for suite, records in SUITES.items():
    with open(os.path.join(HERE, f"{suite}.json"), "w", newline="\n") as file:
        file.write("[" + ",\n".join(json.dumps(one) for one in records) + "]\n")
with open(os.path.join(HERE, "gates.json"), "w", newline="\n") as file:
    json.dump({name: {"default": name in ON} for name in sorted(ON + OFF)}, file, indent=1)
    file.write("\n")
