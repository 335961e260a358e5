#!/usr/bin/env python3
"""Quartermaster's API from another language: submit, watch, why, cost.

Generates stubs from proto/ into a temporary folder and speaks to a running suite:

    client.py --endpoints build/run/endpoints.json --proto proto --queue research

Each check prints "PASS name: ..." or "FAIL name: ...", the last line counts them. Exit code 0: all passed; 1: some
failed; 2: the command line, the endpoints file or the stubs are wrong; 3: a service is away.

--until says how far the submitted job must come (submitted, admitted or finished); without it, what happens to the
job depends on the suite and only its being accepted and watched is checked.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile
import uuid

import google.protobuf
import grpc
from grpc_tools import protoc

PROTOS = ("envelope", "model", "events", "admission_service", "cost_service")
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Usage(Exception):
    """The run cannot start as it was asked for."""


class Stubs:
    """The generated modules: stubs.admission_service.SubmitRequest, stubs.grpc("admission_service").AdmissionStub."""

    def __init__(self, proto_dir, out_dir):
        source = pathlib.Path(proto_dir)
        files = sorted(str(p) for p in source.glob("quartermaster/v1/*.proto"))
        if not files:
            raise Usage("no quartermaster/v1/*.proto below %s; name the folder proto by --proto" % source)
        # grpc_tools includes google/protobuf; google/rpc is next to our files.
        files += sorted(str(p) for p in source.glob("google/rpc/*.proto"))
        wanted = ["protoc", "-I%s" % source, "-I%s" % (pathlib.Path(protoc.__file__).parent / "_proto"),
                  "--python_out=%s" % out_dir, "--grpc_python_out=%s" % out_dir] + files
        if protoc.main(wanted) != 0:
            raise Usage("protoc refused the files below %s" % source)
        sys.path.insert(0, out_dir)
        # protobuf itself owns the package "google": make it find google/rpc too.
        import google

        google.__path__.append(str(pathlib.Path(out_dir) / "google"))
        for name in PROTOS:
            setattr(self, name, importlib.import_module("quartermaster.v1.%s_pb2" % name))

    def grpc(self, name):
        return importlib.import_module("quartermaster.v1.%s_pb2_grpc" % name)

    def details(self, error):
        """Field and remedy of a refusal, from the google.rpc.Status in the trailers."""
        status_pb2 = importlib.import_module("google.rpc.status_pb2")
        details_pb2 = importlib.import_module("google.rpc.error_details_pb2")
        trailers = dict(error.trailing_metadata() or ())
        status = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        field, remedy = "", ""
        for packed in status.details:
            info, bad = details_pb2.ErrorInfo(), details_pb2.BadRequest()
            if packed.Unpack(info):
                remedy = info.metadata.get("remedy", "")
            elif packed.Unpack(bad) and bad.field_violations:
                field = bad.field_violations[0].field
        return field, remedy


class Report:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, ok, name, text):
        self.passed += bool(ok)
        self.failed += not ok
        print("%s %s: %s" % ("PASS" if ok else "FAIL", name, text), flush=True)
        return ok


class Client:
    def __init__(self, stubs, endpoints, timeout):
        self.stubs, self.timeout = stubs, timeout
        self.channels = [grpc.insecure_channel(endpoints[s]) for s in ("admission", "cost")]
        self.admission = stubs.grpc("admission_service").AdmissionStub(self.channels[0])
        self.cost = stubs.grpc("cost_service").CostStub(self.channels[1])

    def close(self):
        for channel in self.channels:
            channel.close()

    def spec(self, args, name):
        model = self.stubs.model
        shape = model.PodShape(cpu_milli=1000, memory_bytes=1 << 30, gpu=model.GpuShape(whole=args.gpus))
        return model.WorkloadSpec(namespace=args.namespace, name=name, queue=args.queue, team=args.team,
                                  pod_sets=[model.PodSet(name="main", count=args.pods, shape=shape)])

    def submit(self, report, args, name):
        message = self.stubs.admission_service
        request = message.SubmitRequest(request_id=uuid.uuid4().hex, spec=self.spec(args, name))
        request.pod_annotations["fleet.quartermaster.dev/run-seconds"] = str(args.run_seconds)
        first = self.admission.Submit(request, timeout=self.timeout)
        report.check((first.namespace, first.name) == (args.namespace, name), "submit",
                     "%s %s/%s" % (first.kind, first.namespace, first.name))
        again = self.admission.Submit(request, timeout=self.timeout)
        report.check(again == first, "submit again", "the same request id has the same answer")

    def watch(self, report, args, name):
        """Follows the namespace until the job is as far as it must come."""
        events = self.stubs.events
        reached = {"submitted": {events.PENDING, events.QUOTA_RESERVED, events.ADMITTED, events.FINISHED},
                   "admitted": {events.ADMITTED, events.FINISHED}, "finished": {events.FINISHED}}[args.until]
        request = self.stubs.admission_service.WatchWorkloadsRequest(namespace=args.namespace)
        call = self.admission.Watch(request, timeout=args.wait)
        phases, versions, last = [], [], None
        try:
            for update in call:
                state = update.workload.state
                if state.spec.name != name:
                    continue
                last = update.workload
                phases.append(events.WorkloadPhase.Name(state.phase))
                versions.append(last.version)
                if state.phase in reached:
                    break
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        call.cancel()
        done = last is not None and last.state.phase in reached
        report.check(done, "watch", "%s/%s went %s" % (args.namespace, name, " ".join(phases) or "unseen"))
        report.check(versions == sorted(set(versions)), "watch order", "versions %s only grow" % versions)
        return last

    def look(self, report, args, name):
        """Get and the pages of List agree about the job."""
        message = self.stubs.admission_service
        got = self.admission.Get(message.GetWorkloadRequest(namespace=args.namespace, name=name), timeout=self.timeout)
        report.check(got.state.spec.team == args.team, "get", "team %s, attempt %d" % (got.state.spec.team, got.state.attempt))
        uids, token, pages = [], "", 0
        while True:
            page = self.admission.List(message.ListWorkloadsRequest(namespace=args.namespace, page_size=2, page_token=token),
                                       timeout=self.timeout)
            pages += 1
            uids += [w.state.spec.uid for w in page.workloads]
            token = page.next_page_token
            if not token:
                break
        report.check(got.state.spec.uid in uids and len(uids) == len(set(uids)), "list",
                     "%d workloads on %d pages, each once" % (len(uids), pages))

    def why(self, report, args, name):
        message = self.stubs.admission_service
        why = self.admission.Explain(message.ExplainRequest(namespace=args.namespace, name=name), timeout=self.timeout)
        report.check(why.summary, "why", why.summary)

    def refusals(self, report, args):
        message = self.stubs.admission_service
        try:
            self.admission.Get(message.GetWorkloadRequest(namespace=args.namespace, name="unknown-" + uuid.uuid4().hex),
                               timeout=self.timeout)
            report.check(False, "refusal", "a workload that does not exist was found")
        except grpc.RpcError as error:
            field, remedy = self.stubs.details(error)
            report.check(error.code() == grpc.StatusCode.NOT_FOUND and field and remedy, "refusal",
                         "%s, field %s, remedy: %s" % (error.code().name, field, remedy))

    def statement(self, report):
        message = self.stubs.cost_service
        s = self.cost.GetStatement(message.GetStatementRequest(), timeout=self.timeout)
        total = sum(line.nano_usd for line in s.lines)
        report.check(total == s.total_nano_usd == s.provider_nano_usd and s.imbalance_nano_usd == 0, "cost",
                     "%d lines, %d nano-dollars, provider %d, imbalance %d"
                     % (len(s.lines), total, s.provider_nano_usd, s.imbalance_nano_usd))
        # Each page shows the ledger at the time of its request, and postings may happen between two pages. So the sum
        # is compared with the total of one page that has all, and the small pages with its keys.
        def page(size, token=""):
            return self.cost.QueryAllocation(
                message.QueryAllocationRequest(until_us=s.as_of_us, group_by="team", page_size=size, page_token=token),
                timeout=self.timeout)

        whole = page(500)
        total = sum(row.nano_usd for row in whole.rows)
        keys, pages, token = [], 0, ""
        while True:
            part = page(1, token)
            pages += 1
            keys += [row.key for row in part.rows]
            token = part.next_page_token
            if not token:
                break
        complete = not whole.next_page_token and {row.key for row in whole.rows} <= set(keys)
        report.check(total == whole.total_nano_usd and complete and keys == sorted(set(keys)), "allocation",
                     "%d nano-dollars, total %d; %d keys over %d pages" % (total, whole.total_nano_usd, len(keys), pages))


def addresses(path):
    try:
        endpoints = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        raise Usage("endpoints file %s: %s; start the suite or name another by --endpoints" % (path, error))
    for service in ("admission", "cost"):
        if not isinstance(endpoints, dict) or not isinstance(endpoints.get(service), str):
            raise Usage('endpoints file %s has no address "%s"; add "%s": "host:port"' % (path, service, service))
    return endpoints


def run(args, out_dir):
    client = Client(Stubs(args.proto, out_dir), addresses(args.endpoints), args.timeout)
    report = Report()
    name = args.name or "pyclient-" + uuid.uuid4().hex[:8]
    print("python %s, grpc %s, protobuf %s" % (sys.version.split()[0], grpc.__version__, google.protobuf.__version__))
    try:
        client.submit(report, args, name)
        if client.watch(report, args, name) is not None:
            client.look(report, args, name)
        client.why(report, args, name)
        client.refusals(report, args)
        client.statement(report)
    finally:
        client.close()
    print("%d passed, %d failed" % (report.passed, report.failed))
    return 1 if report.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", default="build/run/endpoints.json")
    parser.add_argument("--proto", default="proto", help="the folder proto/ of the sources")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--queue", default="research")
    parser.add_argument("--team", default="research")
    parser.add_argument("--name", default="", help="of the job; a fresh one where not given")
    parser.add_argument("--pods", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--run-seconds", type=int, default=5, help="how long the simulated pods run")
    parser.add_argument("--until", choices=("submitted", "admitted", "finished"), default="submitted")
    parser.add_argument("--wait", type=float, default=60, help="seconds for the job to come as far as --until")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for each other call")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qm-pyclient-") as out_dir:
        try:
            return run(args, out_dir)
        except Usage as error:
            print("client.py: %s" % error, file=sys.stderr)
            return 2
        except grpc.RpcError as error:
            print("FAIL call: %s: %s" % (error.code().name, error.details()), flush=True)
            return 3 if error.code() in UNAVAILABLE else 1


if __name__ == "__main__":
    sys.exit(main())
