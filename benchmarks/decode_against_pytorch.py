"""Decoding speed of the built-in engine beside PyTorch's on the same model, cores and run.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch
    /tmp/torch/bin/python benchmarks/decode_against_pytorch.py build/release/autotune-worker

Both generate greedily from a static batch with a KV cache of their own; rounds alternate, so that
whatever else the machine does meets both. The floor is the time in which this machine reads all
weights and the keys and values of the batch once. With --count-traffic the engine also decodes a
smaller model of the same widths under cachegrind, whose simulated cache of 4 MiB holds no weights:
its misses are the bytes that a step moves, to be held against the same floor.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F


def model_of(arguments):
    return {
        "name": "decode benchmark", "layers": arguments.layers, "hidden": arguments.hidden,
        "heads": arguments.hidden // 64, "kv_heads": arguments.kv_heads, "head_dim": 64,
        "ffn_hidden": arguments.ffn, "vocab": arguments.vocab, "positions": 4096,
    }


class TorchLlama:
    """RMS norm, rotary positions, grouped queries and a gated MLP, with a cache made beforehand."""

    def __init__(self, m, dtype, batch, longest):
        draw = lambda *shape: torch.randn(*shape, dtype=torch.float32).mul_(0.02).to(dtype)
        self.m, self.dtype = m, dtype
        q, kv = m["heads"] * 64, m["kv_heads"] * 64
        self.embedding, self.head = draw(m["vocab"], m["hidden"]), draw(m["vocab"], m["hidden"])
        self.layers = [
            {"qkv": draw(q + 2 * kv, m["hidden"]), "out": draw(m["hidden"], q),
             "first": draw(2 * m["ffn_hidden"], m["hidden"]), "down": draw(m["hidden"], m["ffn_hidden"]),
             "norms": [torch.ones(m["hidden"], dtype=dtype) for _ in range(2)],
             "k": torch.zeros(batch, m["kv_heads"], longest, 64, dtype=dtype),
             "v": torch.zeros(batch, m["kv_heads"], longest, 64, dtype=dtype)}
            for _ in range(m["layers"])]
        self.norm = torch.ones(m["hidden"], dtype=dtype)
        angles = torch.outer(torch.arange(longest).float(), 10000.0 ** (-torch.arange(0, 64, 2) / 64))
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def rotate(self, x, first, count):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[first:first + count], self.sin[first:first + count]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, ids, first):
        m, (batch, count) = self.m, ids.shape
        x = F.embedding(ids, self.embedding)
        for layer in self.layers:
            y = F.rms_norm(x, (m["hidden"],), layer["norms"][0], 1e-5)
            qkv = F.linear(y, layer["qkv"]).view(batch, count, -1, 64).transpose(1, 2)
            q, k, v = qkv.split([m["heads"], m["kv_heads"], m["kv_heads"]], 1)
            end = first + count
            layer["k"][:, :, first:end] = self.rotate(k, first, count)
            layer["v"][:, :, first:end] = v
            y = F.scaled_dot_product_attention(
                self.rotate(q, first, count), layer["k"][:, :, :end], layer["v"][:, :, :end],
                is_causal=count > 1, enable_gqa=m["heads"] != m["kv_heads"])
            x = x + F.linear(y.transpose(1, 2).reshape(batch, count, -1), layer["out"])
            y = F.rms_norm(x, (m["hidden"],), layer["norms"][1], 1e-5)
            gate, up = F.linear(y, layer["first"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(F.rms_norm(x[:, -1], (m["hidden"],), self.norm, 1e-5), self.head)


@torch.inference_mode()
def torch_tpot(model, arguments):
    ids = torch.randint(0, model.m["vocab"], (arguments.batch, arguments.input))
    ids = model.forward(ids, 0).argmax(-1, keepdim=True)
    begin = time.perf_counter()
    for i in range(arguments.output - 1):
        ids = model.forward(ids, arguments.input + i).argmax(-1, keepdim=True)
    return (time.perf_counter() - begin) / (arguments.output - 1)


def run_engine(m, arguments, folder, output, before=(), steps=3):
    """Serves static batches; returns what the program told on standard error and its outcome."""
    outcome = os.path.join(folder, "outcome.json")
    longest = arguments.input + output
    spec = {"norm": "rms_norm", "activation": "silu", "position": "rotary", "gated_mlp": True,
            "tied_embeddings": False, "qkv_bias": False, "attention_out_bias": False,
            "mlp_bias": False, "dropout": False}
    job = {"schema": "autotune.job/1", "model": {**m, **spec},
           "plan": {"dp": 1, "tp": 1, "pp": 1, "mbs": 1, "gbs": 1},
           "workload": {"seq": longest, "gbs": 1, "precision": arguments.precision,
                        "attention": "flash"},
           "optimizer": {}, "steps": steps, "warmup_steps": steps // 3, "outcome_path": outcome,
           "serving": {"batch": arguments.batch, "input": arguments.input,
                       "output": output, "arrival": "static"}}
    path = os.path.join(folder, "job.json")
    with open(path, "w") as file:
        json.dump(job, file)
    done = subprocess.run([*before, arguments.worker, path], check=True, stderr=subprocess.PIPE,
                          text=True)
    with open(outcome) as file:
        return done.stderr, json.load(file)


def engine_tpot(m, arguments, folder):
    return run_engine(m, arguments, folder, arguments.output)[1]["serving"]["tpot_seconds"]["p50"]


def weight_bytes(m, size):
    width = (m["heads"] + 2 * m["kv_heads"]) * 64 + m["heads"] * 64 + 3 * m["ffn_hidden"]
    return (m["layers"] * width + m["vocab"]) * m["hidden"] * size


def kv_bytes(m, batch, context, size):
    return 2 * m["layers"] * m["kv_heads"] * 64 * context * batch * size


def count_traffic(m, arguments, size):
    """Bytes that a step of decoding reads and writes, by the misses of a simulated cache."""
    cachegrind = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null",
                  "--LL=4194304,16,64"]
    m = {**m, "layers": min(2, m["layers"]), "vocab": m["vocab"] // 4}
    short, long = 2, 10
    moved = {}
    with tempfile.TemporaryDirectory() as folder:
        for output in (short, long):
            told, _ = run_engine(m, arguments, folder, output, cachegrind, steps=1)
            misses = re.search(r"LLd misses:[^(]*\(\s*([\d,]+) rd\s*\+\s*([\d,]+) wr", told)
            moved[output] = [64 * int(text.replace(",", "")) for text in misses.groups()]
    read, written = ((b - a) / (long - short) for a, b in zip(moved[short], moved[long]))
    context = arguments.input + (short + long) / 2
    floor = weight_bytes(m, size) + kv_bytes(m, arguments.batch, context, size)
    print(f"counted, {m['layers']} layers: a step reads {read / 1e6:.1f} MB from memory and writes "
          f"{written / 1e6:.1f} MB, {(read + written) / floor:.3f} times the floor of "
          f"{floor / 1e6:.1f} MB")


def read_rate():
    """Bytes a second that all threads read from memory: the best of some sums."""
    data = torch.ones(1 << 27, dtype=torch.float32)
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        data.sum()
        best = max(best, data.numel() * 4 / (time.perf_counter() - begin))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("worker")
    for name, value in (("layers", 8), ("hidden", 768), ("kv-heads", 4), ("ffn", 2048),
                        ("vocab", 16384), ("batch", 1), ("input", 128), ("output", 64),
                        ("rounds", 5), ("threads", os.cpu_count())):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--count-traffic", action="store_true")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    m = model_of(arguments)
    dtype = torch.float32 if arguments.precision == "f32" else torch.bfloat16
    model = TorchLlama(m, dtype, arguments.batch, arguments.input + arguments.output)
    ours, theirs, rates = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            ours.append(engine_tpot(m, arguments, folder))
            theirs.append(torch_tpot(model, arguments))
            rates.append(read_rate())
    size = 4 if arguments.precision == "f32" else 2
    context = arguments.input + arguments.output / 2
    weights, kv = weight_bytes(m, size), kv_bytes(m, arguments.batch, context, size)
    floor = (weights + kv) / max(rates)
    print(f"a step reads {weights / 1e6:.1f} MB of weights and {kv / 1e6:.1f} MB of keys and values "
          f"once: at least {floor * 1e3:.2f} ms")
    for name, times in (("autotune", ours), ("PyTorch " + torch.__version__, theirs)):
        step = statistics.median(times)
        print(f"{name}: {step * 1e3:.2f} ms a step, {arguments.batch / step:.1f} tokens/s, "
              f"{step / floor:.2f} times the floor; reads {(weights + kv) / step / 1e9:.1f} GB/s of "
              f"the {max(rates) / 1e9:.1f} GB/s that a plain sum read in this run")
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    print(f"autotune is {ratio:.2f} times as fast (median of {arguments.rounds} rounds side by side)")
    if arguments.count_traffic:
        count_traffic(m, arguments, size)


if __name__ == "__main__":
    main()
