"""A client of the control plane of tools/peers/kubernetes.sh, for the scripts of tests and benchmarks.

The environment is that of `tools/peers/kubernetes.sh env`: QM_KUBE_URL, QM_KUBE_CA, QM_KUBE_TOKEN. An Api has one connection and is
used by one thread. Answers with a status of 300 or more are a RuntimeError, unless they are allowed.
"""
import http.client
import json
import os
import ssl
import urllib.parse

MERGE = "application/merge-patch+json"


class Api:
    def __init__(self, environment=os.environ):
        self.server = urllib.parse.urlparse(environment["QM_KUBE_URL"]).netloc
        self.token = "Bearer " + environment["QM_KUBE_TOKEN"]
        self.context = ssl.create_default_context(cafile=environment["QM_KUBE_CA"])
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPSConnection(self.server, context=self.context)

    def send(self, method, path, body=None, content="application/json"):
        """The status and the text of the answer."""
        headers = {"Authorization": self.token, "Content-Type": content}
        text = None if body is None else json.dumps(body)
        for last in (method != "GET", True):
            try:
                self.connection.request(method, path, text, headers)
                response = self.connection.getresponse()
                return response.status, response.read()
            except http.client.RemoteDisconnected:  # the server closes a connection that was idle
                self.connection = self.connect()
                if last:
                    raise

    def call(self, method, path, body=None, content="application/json", allowed=()):
        status, text = self.send(method, path, body, content)
        if status >= 300 and status not in allowed:
            raise RuntimeError(f"{method} {path}: {status} {text[:400]}")
        return json.loads(text)

    def watch(self, path, version, seconds):
        """The events of the path after the version, as (type, object), until the time is over."""
        connection = self.connect()
        try:
            connection.request("GET", f"{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}",
                               headers={"Authorization": self.token})
            for line in connection.getresponse():
                event = json.loads(line)
                if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                    raise RuntimeError(f"watch of {path}: {line[:400]}")
                yield event["type"], event["object"]
        finally:
            connection.close()
