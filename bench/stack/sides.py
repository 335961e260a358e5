"""The sides of a comparison. Each prepares nodes and queues on an empty control plane, and names its processes.

A role says what a process is: "control plane", which each side needs; "side", which a user installs for it; "agent", the same on nodes;
"harness", which stands for kubelets and a cloud. Costs of a side are those of its own processes and what they cause in the control plane.
"""
import json
import os
import signal
import sys
import time

import capacity
import workload
from cluster import LEASE_SECONDS, ROOT, Cluster, output_of

sys.path.insert(0, os.path.join(ROOT, "bench/common"))
import suite  # noqa: E402

CONTROL_PLANE = {"api": "control plane", "etcd": "control plane", "controllers": "control plane", "kwok": "harness"}
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PID_FILES = {"kueue": "kueue.pid", "karpenter": "karpenter.pid"}
KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"


class Side:
    parts = ["etcd", "api", "controllers", "scheduler", "kwok"]

    def __init__(self, options, jobs):
        self.options, self.jobs = options, jobs
        self.held, self.launches = options.scenario == "released", options.scenario == "capacity"
        self.cluster = Cluster(options.dir, options.port, self.parts, options.scoring)
        self.peers = {}  # name -> run folder of a program started by tools/peers

    def start(self):
        self.cluster.start()
        self.prepare()

    def prepare(self):
        if not self.launches:
            self.cluster.add_nodes(self.options.nodes)
            return
        self.start_karpenter()
        for path, item in capacity.karpenter_objects():
            self.cluster.api.call("POST", path, item)

    def start_karpenter(self):
        types = os.path.join(self.options.dir, "types.json")
        with open(types, "w", encoding="ascii") as file:
            file.write(capacity.karpenter_types())
        self.start_peer("karpenter", self.options.port + 14, QM_KARPENTER_TYPES=types)

    def start_peer(self, name, port, **settings):
        """A program of tools/peers on this control plane, with client limits that do not matter on one machine."""
        run, prefix = os.path.join(self.options.dir, name), f"QM_{name.upper()}_"
        self.cluster.environment.update({prefix + "RUN": run, prefix + "PORT": str(port), prefix + "QPS": "5000",
                                         prefix + "BURST": "10000", **settings})
        self.peers[name] = run
        output_of([os.path.join(ROOT, "tools/peers", name + ".sh"), "start"], env=self.cluster.environment)

    def job(self, job):
        raise NotImplementedError

    def processes(self):
        """Name -> (pid, role)."""
        found = {part: (self.cluster.pid(part), CONTROL_PLANE.get(part, "side")) for part in self.parts}
        for name, run in self.peers.items():
            with open(os.path.join(run, PID_FILES[name]), encoding="ascii") as file:
                found[name] = (int(file.read()), "side")
        return found

    def database(self):
        """How to connect to the PostgreSQL of this side; None if there is none."""
        return None

    def metrics(self):
        """The addresses of services that count what they parse and send."""
        return []

    def all_pending(self, made):
        """Whether the side has seen all Jobs that were created while it was held."""
        raise NotImplementedError

    def release(self):
        raise NotImplementedError

    def stop(self):
        for name in self.peers:
            output_of([os.path.join(ROOT, "tools/peers", name + ".sh"), "stop"], env=self.cluster.environment)
        self.cluster.stop()

    def gpus(self):
        if self.launches:
            return sum(job.pods * job.gpus for job in self.jobs)
        return self.options.nodes * workload.GPUS_PER_NODE


class SchedulerSide(Side):
    """kube-scheduler alone. Held, it is stopped by a signal while the controller-manager creates the pods."""
    name = "kube-scheduler"

    def prepare(self):
        super().prepare()
        if self.held:
            os.kill(self.cluster.pid("scheduler"), signal.SIGSTOP)

    def job(self, job):
        return workload.job_object(job)

    def all_pending(self, made):
        listed = self.cluster.api.call("GET", "/api/v1/pods?limit=1")
        return len(listed["items"]) + (listed["metadata"].get("remainingItemCount") or 0) >= sum(job.pods for job in made)

    def release(self):
        os.kill(self.cluster.pid("scheduler"), signal.SIGCONT)

    def stop(self):
        if self.held:
            os.kill(self.cluster.pid("scheduler"), signal.SIGCONT)
        super().stop()


class KueueSide(Side):
    """Kueue and kube-scheduler, and Karpenter where nodes are launched. In turnover Karpenter runs without a NodePool, since the
    other side has its autoscaler there as well."""
    name = "kueue"

    def prepare(self):
        super().prepare()
        if self.options.scenario == "turnover":
            self.start_karpenter()
        self.start_peer("kueue", self.options.port + 10, QM_KUEUE_LEASE=str(LEASE_SECONDS))
        for item in workload.queue_objects(KUEUE_VERSION, "cohortName", self.gpus(), self.held):
            self.cluster.api.call("POST", self.path_of(item), item)

    @staticmethod
    def path_of(item):
        namespace = item["metadata"].get("namespace")
        return f"/apis/{KUEUE_VERSION}/" + (f"namespaces/{namespace}/" if namespace else "") + item["kind"].lower() + "s"

    def job(self, job):
        return workload.job_object(job, queue_label=QUEUE_LABEL)

    def all_pending(self, made):
        listed = self.cluster.api.call("GET", f"/apis/{KUEUE_VERSION}/workloads?limit=1")
        return len(listed["items"]) + (listed["metadata"].get("remainingItemCount") or 0) >= len(made)

    def release(self):
        for name in workload.NAMESPACES:
            self.cluster.api.call("PATCH", f"/apis/{KUEUE_VERSION}/clusterqueues/{name}", {"spec": {"stopPolicy": "None"}},
                                  "application/merge-patch+json")


class QuartermasterSide(Side):
    """The five services with PostgreSQL as the bus, Redis, and agents; the simulated fleet is the cloud."""
    name = "quartermaster"
    parts = ["etcd", "api", "controllers", "kwok"]

    def __init__(self, options, jobs):
        super().__init__(options, jobs)
        self.dir = os.path.join(options.dir, "suite")
        self.bin = os.environ.get("QM_BIN", os.path.join(ROOT, "build/release/bin"))
        self.endpoints = None
        self.server = " ".join(part for part in os.environ["QM_STACK_POSTGRES"].split() if not part.startswith("dbname="))
        self.database_name = f"turn_{time.monotonic_ns()}"

    def prepare(self):
        # The fleet's nodes are created in the cluster by the program that starts the suite.
        pools = os.path.join(self.options.dir, "pools.yaml")
        with open(pools, "w", encoding="ascii") as file:
            file.write(capacity.quartermaster_pools() if self.launches else "")
        # A database of its own on a server that syncs to disk, as etcd does.
        suite.sql(self.server + " dbname=postgres", f"CREATE DATABASE {self.database_name}")
        output_of([os.path.join(self.bin, "qm-demo"), "--up", "--postgres", self.server + " dbname=" + self.database_name, "--kube", f"kubeconfig:{self.cluster.run}/kubeconfig", "--dir", self.dir,
                   "--nodes", "0" if self.launches else str(self.options.nodes), "--boot-seconds", "0", "--spot-nodes", "0", "--speed", "1", "--pools", pools], cwd=ROOT,
                  env=self.cluster.environment)
        with open(os.path.join(self.dir, "endpoints.json"), encoding="ascii") as file:
            self.endpoints = json.load(file)
        self.apply(self.held)

    def apply(self, held):
        file = os.path.join(self.options.dir, "queues.json")
        with open(file, "w", encoding="ascii") as out:
            out.write("\n---\n".join(json.dumps(o) for o in workload.queue_objects("kueue.x-k8s.io/v1beta1", "cohort", self.gpus(), held)))
        output_of(self.qmctl("apply", "--replace", "-f", file))

    def qmctl(self, *words):
        return [os.path.join(self.bin, "qmctl"), "--endpoints", os.path.join(self.dir, "endpoints.json"), *words]

    def job(self, job):
        return workload.job_object(job, scheduler="quartermaster", queue_label=QUEUE_LABEL)

    def processes(self):
        pids = dict(self.endpoints["pids"])
        found = {**super().processes(), "fleet": (pids.pop("fleet"), "harness")}
        with open(os.path.join(self.dir, "demo.pid"), encoding="ascii") as file:
            found["starter"] = (int(file.read()), "harness")
        found.update({name: (pid, "agent" if name.startswith("agent") else "side") for name, pid in pids.items()})
        found["postgresql"] = (suite.postmaster_pid(self.database()), "side")
        return found

    def database(self):
        return self.endpoints["postgres"]

    def metrics(self):
        return list(self.endpoints["http"].values())

    def all_pending(self, made):
        queues = json.loads(output_of(self.qmctl("-o", "json", "queues")))["queues"]
        return sum(int(queue["pending"]) for queue in queues) >= len(made)

    def release(self):
        self.apply(held=False)

    def stop(self):
        if os.path.exists(os.path.join(self.dir, "demo.pid")):
            output_of([os.path.join(self.bin, "qm-demo"), "--down", "--dir", self.dir])
            suite.sql(self.server + " dbname=postgres", f"DROP DATABASE IF EXISTS {self.database_name} WITH (FORCE)")
        super().stop()


SIDES = (SchedulerSide, KueueSide, QuartermasterSide)
