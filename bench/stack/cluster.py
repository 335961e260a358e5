"""The control plane of one turn: tools/peers/kubernetes.sh in a folder and on ports of its own, empty at the start."""
import concurrent.futures
import os
import subprocess
import sys
import time

import workload

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/peers"))
from api import Api  # noqa: E402

SCRIPT = os.path.join(ROOT, "tools/peers/kubernetes.sh")
# Of kube-scheduler, whose lease outlives the time for which a held one is stopped; and of Kueue, which with the default of 15 ends itself
# when a release of 5,000 Jobs uses both cores.
LEASE_SECONDS = 900
# With the default scoring pods are spread over the nodes, and large pods find none; a GPU cluster with a fixed number of nodes is
# configured to pack GPUs.
SCHEDULER = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "%s/kubeconfig", qps: 5000, burst: 10000}
leaderElection: {leaderElect: true, leaseDuration: %ds, renewDeadline: 840s}
"""
SCORING = {"spread": "", "packed": """profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 1}]}}
"""}
CLIENTS = 4
READY_SECONDS = 300


def output_of(command, **more):
    """The output of a command; its last lines are in the error if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stdout[-800:]}")
    return done.stdout


def await_that(what, seconds, condition):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.5)


def in_parallel(environment, items, work):
    """work(api, item) for each item, by CLIENTS clients with a connection each, in the order of the items."""
    waiting = iter(items)

    def client():
        api = Api(environment)
        # The lock of the interpreter makes next() of one iterator safe for several threads, except for generators.
        for item in waiting:
            work(api, item)

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for future in [pool.submit(client) for _ in range(CLIENTS)]:
            future.result()


class Cluster:
    def __init__(self, folder, port, parts, scoring):
        self.parts, self.scoring = parts, scoring
        self.run = os.path.join(folder, "kube")
        self.scheduler = os.path.join(folder, "scheduler.yaml")
        self.environment = dict(
            os.environ, QM_KUBE_RUN=self.run, QM_KUBE_PORT=str(port), QM_KUBE_PARTS=" ".join(parts),
            QM_KUBE_ARGS_CONTROLLERS="--kube-api-qps=2000 --kube-api-burst=4000 --concurrent-job-syncs=30",
            QM_KUBE_ARGS_SCHEDULER=f"--config={self.scheduler}")
        self.api = None

    def start(self):
        output_of([SCRIPT, "clean"], env=self.environment)
        with open(self.scheduler, "w", encoding="ascii") as file:
            file.write(SCHEDULER % (self.run, LEASE_SECONDS) + SCORING[self.scoring])
        output_of([SCRIPT, "start"], env=self.environment)
        lines = output_of(["bash", "-c", f'eval "$({SCRIPT} env)" && env -0'], env=self.environment)
        self.environment = dict(line.split("=", 1) for line in lines.split("\0") if line)
        self.api = Api(self.environment)
        for name in workload.NAMESPACES:
            self.api.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in workload.NAMESPACES:  # no pod is accepted before
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            await_that(f"the default ServiceAccount of {name}", 60, lambda path=path: self.api.send("GET", path)[0] == 200)

    def add_nodes(self, count):
        nodes = [workload.node_object(i) for i in range(count)]
        in_parallel(self.environment, nodes, lambda api, node: api.call("POST", "/api/v1/nodes", node))
        await_that(f"{count} ready nodes", READY_SECONDS, lambda: self.ready_nodes() >= count)

    def ready_nodes(self):
        def ready(node):
            return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or [])
        return sum(1 for node in self.api.call("GET", "/api/v1/nodes")["items"] if ready(node))

    def pid(self, part):
        with open(os.path.join(self.run, part + ".pid"), encoding="ascii") as file:
            return int(file.read())

    def stop(self):
        output_of([SCRIPT, "clean"], env=self.environment)
