#!/usr/bin/env python3
"""Writes libs/apiserver/fields.csv from the OpenAPI documents of a running API server.

usage: fields.py SERVER TOKEN CA >libs/apiserver/fields.csv
"""
import json
import ssl
import sys
import urllib.request

# The built-in kinds of the API server that qm-fleet serves.
KINDS = {
    "api/v1": "Pod Node Event ConfigMap Secret Service ServiceAccount PersistentVolumeClaim PersistentVolume LimitRange "
              "ResourceQuota Namespace",
    "apis/storage.k8s.io/v1": "StorageClass CSINode",
    "apis/batch/v1": "Job",
    "apis/apps/v1": "Deployment",
    "apis/coordination.k8s.io/v1": "Lease",
    "apis/node.k8s.io/v1": "RuntimeClass",
    "apis/scheduling.k8s.io/v1": "PriorityClass",
    "apis/policy/v1": "PodDisruptionBudget",
    "apis/autoscaling/v2": "HorizontalPodAutoscaler",
    "apis/networking.k8s.io/v1": "NetworkPolicy",
    "apis/apiextensions.k8s.io/v1": "CustomResourceDefinition",
}
TEXTS = {"Time", "MicroTime", "Duration"}


def short(name):
    return name.rsplit(".", 1)[-1]


def type_of(field, schemas, queue):
    if "allOf" in field:
        field = field["allOf"][0]
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        if short(name) in ("Quantity", "IntOrString"):
            return short(name)
        if short(name) in TEXTS:
            return "string"
        if "properties" not in schemas[name]:
            return "any"
        if short(name) in ("FieldsV1", "RawExtension"):
            return "any"
        queue.append(name)
        return short(name)
    kind = field.get("type")
    if kind == "array":
        return "[]" + type_of(field["items"], schemas, queue)
    if kind == "object":
        if "additionalProperties" not in field:
            return "any"
        return "map[string]" + type_of(field["additionalProperties"], schemas, queue)
    if kind == "integer":
        return field.get("format", "int64")
    return {"string": "string", "boolean": "bool", "number": "float64"}.get(kind, "any")


def main():
    server, token, ca = sys.argv[1:]
    structs = {}
    for path, kinds in KINDS.items():
        request = urllib.request.Request(f"{server}/openapi/v3/{path}", headers={"Authorization": "Bearer " + token})
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ca)) as answer:
            schemas = json.load(answer)["components"]["schemas"]
        queue = [name for name, schema in schemas.items() if short(name) in kinds.split()
                 and any(g["version"] == path.rsplit("/", 1)[-1] for g in schema.get("x-kubernetes-group-version-kind", []))]
        while queue:
            name = queue.pop()
            fields = schemas[name].get("properties", {})
            found = {field: type_of(schema, schemas, []) for field, schema in fields.items()}
            if short(name) in structs:
                if structs[short(name)] != (name, found):
                    sys.exit(f"two types are called {short(name)}: {name} and {structs[short(name)][0]}")
                continue
            structs[short(name)] = (name, found)
            for schema in fields.values():
                type_of(schema, schemas, queue)
    print("type,field,of")
    for name, (_, fields) in sorted(structs.items()):
        for field, kind in sorted(fields.items()):
            print(f"{name},{field},{kind}")


main()
