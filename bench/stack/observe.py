"""An observer process: when Jobs were admitted, and pods bound and ended, as watches of the API server show it."""
import http.client
import multiprocessing
import os
import threading
import time

from cluster import Api
from workload import GPU

ALL_DAY_S = 86_400


def gpus_of(pod):
    return sum(int((c.get("resources") or {}).get("requests", {}).get(GPU, 0)) for c in pod["spec"]["containers"])


class Record:
    """What was observed; times are those of time.monotonic(), which all processes share."""

    def __init__(self):
        self.pods, self.jobs, self.nodes = {}, {}, {}

    def see_pod(self, gone, pod, now):
        """Whether the pod is bound now and was not before."""
        meta = pod["metadata"]
        one = self.pods.get(meta["uid"])
        if one is None:
            job = (meta.get("labels") or {}).get("batch.kubernetes.io/job-name", "")
            one = self.pods[meta["uid"]] = {"job": f"{meta['namespace']}/{job}", "gpus": gpus_of(pod), "node": None, "seen": now,
                                            "bound": None, "ended": None}
        news = one["node"] is None and bool(pod["spec"].get("nodeName"))
        if news:
            one["node"], one["bound"] = pod["spec"]["nodeName"], now
        if one["ended"] is None and (gone or pod["status"].get("phase") in ("Succeeded", "Failed")):
            one["ended"] = now
        return news

    def see_job(self, job, now):
        """Whether the Job has ended now and had not before."""
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        one = self.jobs.setdefault(name, {"admitted": None, "ended": None})
        if one["admitted"] is None and not job["spec"].get("suspend"):
            one["admitted"] = now
        ends = one["ended"] is None and any(c["type"] in ("Complete", "Failed") and c["status"] == "True"
                                            for c in job["status"].get("conditions") or [])
        if ends:
            one["ended"] = now
        return ends

    def see_node(self, gone, node, now):
        one = self.nodes.setdefault(node["metadata"]["name"], {"joined": now, "gone": None})
        labels = node["metadata"].get("labels") or {}
        one["type"] = labels.get("node.kubernetes.io/instance-type", one.get("type", ""))
        one["gpus"] = int((node["status"].get("allocatable") or {}).get(GPU, one.get("gpus", 0)))
        if gone:
            one["gone"] = now


def _follow(environment, path, see):
    """Lists and watches without end. The API server ends the watch of a reader that is slow for a moment; it goes on after the last event."""
    api, version = Api(environment), None
    while True:
        if version is None:
            listed = api.call("GET", path)
            version = listed["metadata"]["resourceVersion"]
            for item in listed["items"]:
                see(False, item, time.monotonic())
        try:
            for kind, item in api.watch(path, version, ALL_DAY_S):
                version = item["metadata"]["resourceVersion"]
                see(kind == "DELETED", item, time.monotonic())
        except RuntimeError:  # the version is too old
            version = None
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)


def _run(environment, bound, ended, over, result):
    record = Record()

    def see_pod(gone, pod, now):
        if record.see_pod(gone, pod, now):
            bound.value += 1

    def see_job(_, job, now):
        if record.see_job(job, now):
            ended.value += 1

    for path, see in (("/api/v1/pods", see_pod), ("/apis/batch/v1/jobs", see_job), ("/api/v1/nodes", record.see_node)):
        threading.Thread(target=_follow, args=(environment, path, see), daemon=True).start()
    over.wait()
    result.send((record.pods, record.jobs, record.nodes))
    result.close()
    os._exit(0)  # the watches are open


class Observer:
    def __init__(self, environment):
        context = multiprocessing.get_context("spawn")  # a copy of this process would have its threads' locks
        self.bound, self.ended = context.Value("q", 0), context.Value("q", 0)
        self.over = context.Event()
        self.result, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_run, args=(environment, self.bound, self.ended, self.over, sender), daemon=True)
        self.process.start()
        sender.close()

    def end(self):
        """The record; the observer has ended then."""
        self.over.set()
        record = Record()
        record.pods, record.jobs, record.nodes = self.result.recv()
        self.process.join()
        return record
