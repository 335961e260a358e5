#!/usr/bin/env python3
"""A trainer that implements the checkpoint contract of Quartermaster, with the standard library alone.

It fits a line by stochastic gradient descent, as a gang of WORLD_SIZE ranks. A real trainer replaces `Model`, and keeps
the rest: an order sets a flag, the ranks agree on it at the end of a step, and all of them save that same step.

  order    POST /v1/checkpoint on --port, or checkpoint-order.json in --exchange, or SIGUSR1
  answer   {"step", "epoch", "uri", "bytes", "seconds", "fence"}, over HTTP or in checkpoint-answer.json
  resume   CHECKPOINT_URI: the address of the newest acknowledged checkpoint; empty in the first attempt

docs/features/checkpoints.md describes the contract.
"""
import argparse
import http.server
import json
import os
import random
import shutil
import signal
import socket
import struct
import threading
import time


class Model:
    """y = weight x + bias, from noisy samples of y = 3x - 1."""

    STEPS_OF_AN_EPOCH = 1000

    def __init__(self, seed):
        self.weight, self.bias, self.step, self.random = 0.0, 0.0, 0, random.Random(seed)

    @property
    def epoch(self):
        return self.step // self.STEPS_OF_AN_EPOCH

    def train_step(self):
        x = self.random.uniform(-1, 1)
        error = self.weight * x + self.bias - (3 * x - 1 + self.random.gauss(0, 0.1))
        self.weight -= 0.05 * error * x
        self.bias -= 0.05 * error
        self.step += 1

    def save(self, path):
        """Writes the state under another name first: a checkpoint exists whole or not at all."""
        version, internal, gauss = self.random.getstate()
        state = {"step": self.step, "weight": self.weight, "bias": self.bias, "random": [version, list(internal), gauss]}
        part = f"{path}.part"
        with open(part, "w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, path)
        return os.path.getsize(path)

    def load(self, path):
        with open(path) as file:
            state = json.load(file)
        self.step, self.weight, self.bias = state["step"], state["weight"], state["bias"]
        version, internal, gauss = state["random"]
        self.random.setstate((version, tuple(internal), gauss))


class Gang:
    """An all-reduce of one number, its maximum: rank 0 collects the numbers of the others and answers with the result."""

    def __init__(self, rank, size, address, port):
        self.rank, self.peers = rank, []
        if size == 1:
            return
        if rank == 0:
            server = socket.create_server(("", port))
            self.peers = [server.accept()[0] for _ in range(size - 1)]
            server.close()
            return
        deadline = time.monotonic() + 60
        while True:
            try:
                self.peers = [socket.create_connection((address, port), timeout=60)]
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    @staticmethod
    def _receive(peer):
        data = b""
        while len(data) < 8:
            part = peer.recv(8 - len(data))
            if not part:
                raise ConnectionError("a rank of the gang is gone")
            data += part
        return struct.unpack("!q", data)[0]

    def maximum(self, value):
        if self.rank == 0:
            value = max([value] + [self._receive(peer) for peer in self.peers])
            for peer in self.peers:
                peer.sendall(struct.pack("!q", value))
        elif self.peers:
            self.peers[0].sendall(struct.pack("!q", value))
            value = self._receive(self.peers[0])
        return value


def number_of(fence):
    """"3-17" as one number that grows with each order of each attempt; an order without a fence is the oldest."""
    attempt, _, number = fence.partition("-")
    return (int(attempt) << 40) + int(number) if attempt.isdigit() and number.isdigit() else 1


class Orders:
    """Orders that wait for a checkpoint. Channels add them from their own threads; the training loop answers them."""

    REMEMBERED = 16

    def __init__(self, exchange):
        self.exchange, self.lock, self.open, self.signaled = exchange, threading.Lock(), [], False
        self.last_order, self.saves = None, {}  # number of an order -> the save that answered it

    def post(self, order, answer):
        """An order that reaches this rank after its gang has saved for it gets the answer of that save."""
        with self.lock:
            known = [number for number in self.saves if number >= number_of(order.get("fence", ""))]
            if not known:
                return self.open.append((order, answer))
            saved = self.saves[min(known)]
        answer({**saved, "fence": order.get("fence", "")})

    def on_signal(self, *_):
        self.signaled = True  # no more than a flag: a handler interrupts any code

    def newest(self):
        """The number of the newest open order; 0 = none."""
        self._read_file()
        with self.lock:
            return max([int(self.signaled)] + [number_of(order.get("fence", "")) for order, _ in self.open])

    def copies(self):
        """Second destinations that open orders name."""
        with self.lock:
            return {order["copy"] for order, _ in self.open if order.get("copy")}

    def complete(self, number, saved):
        with self.lock:
            orders, self.open, self.signaled = self.open, [], False
            if number > 1:
                self.saves[number] = saved
            while len(self.saves) > self.REMEMBERED:
                del self.saves[min(self.saves)]
        for order, answer in orders:
            answer({**saved, "fence": order.get("fence", "")})

    def _read_file(self):
        if not self.exchange:
            return
        try:
            with open(os.path.join(self.exchange, "checkpoint-order.json")) as file:
                order = json.load(file)
        except FileNotFoundError:
            return
        if order.get("fence") != self.last_order:
            self.last_order = order.get("fence")
            self.post(order, self._write_file)

    def _write_file(self, answer):
        part = os.path.join(self.exchange, ".checkpoint-answer.part")
        with open(part, "w") as file:
            json.dump(answer, file)
        os.rename(part, os.path.join(self.exchange, "checkpoint-answer.json"))


def serve(orders, address, port):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            order = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            done, answers = threading.Event(), []
            orders.post(order, lambda answer: (answers.append(answer), done.set()))
            done.wait()
            body = json.dumps(answers[0]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def save(model, folder, rank):
    """Rank 0 writes the state, which is the same on all ranks of data-parallel training."""
    begun = time.monotonic()
    path = os.path.join(folder, f"epoch-{model.epoch}-step-{model.step}.json")
    size = model.save(path) if rank == 0 else 0
    return {"step": model.step, "epoch": model.epoch, "uri": path, "bytes": size,
            "seconds": round(time.monotonic() - begun, 6)}


def copy_to(folder, saved):
    """Best effort: the first destination counts. A real trainer uploads to its object storage here."""
    try:
        os.makedirs(folder, exist_ok=True)
        shutil.copy(saved["uri"], folder)
    except OSError as error:
        print(f"no copy in {folder}: {error}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--step-seconds", type=float, default=0.01, help="duration of a step of the real model")
    parser.add_argument("--checkpoint-freq", type=int, default=1000, help="steps between saves without an order")
    parser.add_argument("--folder", default="/checkpoints", help="durable storage for checkpoints")
    parser.add_argument("--exchange", default="", help="emptyDir volume for orders by file")
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8480, help="of orders by HTTP; 0 = any")
    args = parser.parse_args()
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    orders = Orders(args.exchange)
    signal.signal(signal.SIGUSR1, orders.on_signal)
    port = serve(orders, args.address, args.port)
    model = Model(seed=7)
    resume = os.environ.get("CHECKPOINT_URI", "")
    if resume:
        model.load(resume)
    print(f"rank {rank} of {size} starts at step {model.step}, orders on port {port}", flush=True)
    gang = Gang(rank, size, os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", 29_400)))

    while model.step < args.steps:
        model.train_step()
        time.sleep(args.step_seconds)
        # Every rank takes part at the end of every step, so all of them learn of an order at the same step.
        ordered = gang.maximum(orders.newest())
        if ordered or model.step % args.checkpoint_freq == 0:
            saved = save(model, args.folder, rank)
            gang.maximum(0)  # rank 0 has written it
            for folder in orders.copies() if rank == 0 else ():
                copy_to(folder, saved)
            orders.complete(ordered, saved)
            print(f"rank {rank} saved step {saved['step']} to {saved['uri']}", flush=True)
    print(f"rank {rank} is done: y = {model.weight:.2f} x {model.bias:+.2f}", flush=True)


if __name__ == "__main__":
    main()
