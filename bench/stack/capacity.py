"""Capacity from zero nodes: the g6 instance types at the prices of the simulated cloud, on demand in one zone, for each side."""
import csv
import json
import os

from cluster import ROOT
from workload import GPU

FAMILY, ZONE = "g6.", "us-east-1a"


def prices():
    """Instance type -> USD an hour."""
    with open(os.path.join(ROOT, "fleet/prices.csv"), encoding="ascii") as file:
        return {row["instance_type"]: float(row["on_demand_usd_hour"]) for row in csv.DictReader(file)}


def karpenter_types():
    """The types in the form of Karpenter's kwok provider."""
    def one(row):
        requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]}]
        return {"name": row["instance_type"], "architecture": "amd64", "operatingSystems": ["linux"],
                "offerings": [{"Price": float(row["on_demand_usd_hour"]), "Available": True, "Requirements": requirements}],
                "resources": {"cpu": row["vcpu"], "memory": row["memory_mib"] + "Mi", "ephemeral-storage": "500Gi", "pods": "250",
                              GPU: row["gpus"]}}
    with open(os.path.join(ROOT, "fleet/prices.csv"), encoding="ascii") as file:
        return json.dumps([one(row) for row in csv.DictReader(file) if row["instance_type"].startswith(FAMILY)])


def karpenter_objects():
    """KWOKNodeClass and NodePool, as (path, object)."""
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "gpu"}, "spec": {}}
    return [("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", node_class),
            ("/apis/karpenter.sh/v1/nodepools", node_pool("karpenter.kwok.sh", "KWOKNodeClass"))]


def node_pool(group, kind):
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In",
                     "values": [name for name in prices() if name.startswith(FAMILY)]}]
    template = {"nodeClassRef": {"group": group, "kind": kind, "name": "gpu"}, "requirements": requirements}
    # The launch is compared, not the consolidation, which would end the pods of these Jobs.
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"},
            "spec": {"template": {"spec": template}, "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}}}


def quartermaster_pools():
    """EC2NodeClass and NodePool for the autoscaler, YAML."""
    tags = {"karpenter.sh/discovery": "quartermaster"}
    node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"},
                  "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "gpu-nodes",
                           "subnetSelectorTerms": [{"tags": tags}], "securityGroupSelectorTerms": [{"tags": tags}]}}
    return "\n---\n".join(json.dumps(o) for o in (node_class, node_pool("karpenter.k8s.aws", "EC2NodeClass")))
