"""Nodes and Jobs of a scenario. The same arguments and the same seed give the same Jobs for each side."""
import dataclasses
import random

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 8
CPU_PER_GPU, GIB_PER_GPU = 2, 8  # a pod of one GPU fits g6.xlarge
NAMESPACES = ("team-a", "team-b", "team-c")
QUEUE = "jobs"  # the LocalQueue of each namespace
FOREVER_S = 86_400
# GPUs of a Job and its weight. More than 8 GPUs are pods of 8, or of 4 where 8 does not divide them.
MIXED = {1: 40, 2: 20, 4: 20, 8: 14, 12: 2, 16: 4}
LOAD = 0.75  # of the GPUs, where Jobs do not end
TURNOVER_LOAD = 0.70
TURNOVER_RUN_S = (60, 240)


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    namespace: str
    pods: int
    gpus: int  # of each pod
    arrival_s: float = 0.0
    run_s: int = FOREVER_S


def pod_shape(gpus):
    """Pods of a Job with so many GPUs, and the GPUs of each."""
    each = GPUS_PER_NODE if gpus % GPUS_PER_NODE == 0 else gpus if gpus < GPUS_PER_NODE else 4
    return max(1, gpus // each), each


def standing(nodes, pods, rng):
    """Jobs that never end, for LOAD of the GPUs; with pods, about so many: more Jobs with one GPU make more pods."""
    capacity = nodes * GPUS_PER_NODE * LOAD
    sizes, weights = list(MIXED), list(MIXED.values())
    total = sum(weights)
    mean_gpus = sum(s * w for s, w in MIXED.items()) / total
    mean_pods = sum(pod_shape(s)[0] * w for s, w in MIXED.items()) / total
    mixed = 1.0
    if pods:
        # mixed * mean_gpus + (1 - mixed) of one GPU each, over as many pods, is capacity over pods.
        ratio = capacity / pods
        mixed = min(1.0, max(0.0, (ratio - 1) / (mean_gpus - 1 - ratio * (mean_pods - 1))))
    asked = made = 0
    while asked < capacity and (not pods or made < pods):
        gpus = rng.choices(sizes, weights)[0] if rng.random() < mixed else 1
        count, each = pod_shape(gpus)
        asked, made = asked + gpus, made + count
        yield count, each


def gangs(nodes):
    """10 gangs of 512 pods and 100 of 32, pods of one GPU, mixed: nodes * 8 GPUs hold only a part of the 8,320 at once."""
    large, small = 10, 100
    for i in range(small):
        if i % (small // large) == 0:
            yield 512, 1
        yield 32, 1


def turnover(nodes, seconds, rng):
    """Arrivals by a Poisson process for TURNOVER_LOAD of the GPUs in the mean, as (second, pods, GPUs, seconds)."""
    sizes, weights = list(MIXED), list(MIXED.values())
    mean_gpus = sum(s * w for s, w in MIXED.items()) / sum(weights)
    rate = TURNOVER_LOAD * nodes * GPUS_PER_NODE / (mean_gpus * sum(TURNOVER_RUN_S) / 2)
    at = rng.expovariate(rate)
    while at < seconds:
        yield at, *pod_shape(rng.choices(sizes, weights)[0]), rng.randint(*TURNOVER_RUN_S)
        at += rng.expovariate(rate)


def mixed_pods(pods, rng):
    """Single pods of 1 to 8 GPUs."""
    for _ in range(pods):
        yield 1, rng.choice((1, 1, 1, 2, 2, 4, 4, 8))


def jobs_of(scenario, nodes, pods, seconds, seed):
    rng = random.Random(seed)
    if scenario == "turnover":
        shapes = list(turnover(nodes, seconds, rng))
    else:
        shape = {"burst": lambda: standing(nodes, pods, rng), "released": lambda: standing(nodes, pods, rng),
                 "gangs": lambda: gangs(nodes), "capacity": lambda: mixed_pods(pods or 200, rng)}[scenario]
        shapes = [(0.0, count, each, FOREVER_S) for count, each in shape()]
    return [Job(f"job-{i:05d}", rng.choice(NAMESPACES), count, each, at, run)
            for i, (at, count, each, run) in enumerate(shapes)]


def job_object(job, scheduler=None, queue_label=None):
    """The batch/v1 Job. With a queue label it starts suspended, as users of queues create it."""
    amounts = {"cpu": str(job.gpus * CPU_PER_GPU), "memory": f"{job.gpus * GIB_PER_GPU}Gi", GPU: str(job.gpus)}
    labels = {queue_label: QUEUE} if queue_label else {}
    pod = {"restartPolicy": "Never",
           "containers": [{"name": "main", "image": "example/none:1", "resources": {"requests": amounts, "limits": amounts}}]}
    if scheduler:
        pod["schedulerName"] = scheduler
    template = {"metadata": {"labels": labels, "annotations": {"fleet.quartermaster.dev/run-seconds": str(job.run_s)}}, "spec": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job.name, "namespace": job.namespace, "labels": labels},
            "spec": {"suspend": bool(queue_label), "parallelism": job.pods, "completions": job.pods, "completionMode": "Indexed",
                     "backoffLimit": 0, "template": template}}


def node_object(number):
    """A node of the shape that the fleet simulates for the type p5.48xlarge; kwok makes it ready."""
    name = f"fake-{number:05d}"
    room = {"cpu": "192", "memory": "2Ti", "pods": "250", GPU: str(GPUS_PER_NODE)}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
              "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "p5.48xlarge",
              "topology.kubernetes.io/zone": "us-east-1a", "topology.kubernetes.io/region": "us-east-1"}
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": room, "allocatable": room}}


def queue_objects(version, cohort, gpus, held):
    """ResourceFlavor, a ClusterQueue and a LocalQueue for each namespace, in one cohort; together they have all GPUs."""
    flavor = {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "gpu"}, "spec": {}}
    objects = [flavor]
    for i, namespace in enumerate(NAMESPACES):
        share = gpus // len(NAMESPACES) + (1 if i < gpus % len(NAMESPACES) else 0)
        resources = [{"name": GPU, "nominalQuota": str(share)}, {"name": "cpu", "nominalQuota": "1000000"},
                     {"name": "memory", "nominalQuota": "10000Ti"}]
        spec = {cohort: "gpus", "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "Hold" if held else "None",
                "resourceGroups": [{"coveredResources": [GPU, "cpu", "memory"], "flavors": [{"name": "gpu", "resources": resources}]}]}
        objects.append({"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec})
        objects.append({"apiVersion": version, "kind": "LocalQueue", "metadata": {"name": QUEUE, "namespace": namespace},
                        "spec": {"clusterQueue": namespace}})
    return objects
