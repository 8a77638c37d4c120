"""PyTorch beside training_step_benchmark: one training step of the same GPT, in f32 and bf16, in turns.

    pip install torch
    python benchmarks/torch_training_step.py [build/release/training_step_benchmark]

Each turn times PyTorch and then the engine, so that a busy machine slows both; of each the best turn
counts. bf16 is autocast with f32 weights, as PyTorch trains on CPUs; attention is its fused kernel.
"""
import json
import os
import resource
import subprocess
import sys
import time

# glibc gives large blocks back to the system at once, which costs dear page faults: keep them. The variables
# are read when a process starts.
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 34), "MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_TOP_PAD_": str(1 << 28)}
LAYERS, HIDDEN, HEADS, SEQ, VOCAB, BATCH = 8, 512, 8, 512, 32000, 4
TURNS, STEPS, THREADS = 3, 3, 2


def train(bf16):
    """Seconds of a step (wall, CPU), and the peak memory of this process in GiB."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x):
            q, k, v = (t.view(BATCH, SEQ, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(HIDDEN, 2))
            attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attention.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(HIDDEN)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, 0, 0.02)

        def forward(self, ids, targets):
            x = self.norm(self.blocks(self.tokens(ids) + self.positions.weight))
            logits = F.linear(x, self.tokens.weight)
            return F.cross_entropy(logits.float().view(-1, VOCAB), targets.view(-1))

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids, targets = torch.randint(VOCAB, (BATCH, SEQ)), torch.randint(VOCAB, (BATCH, SEQ))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    wall, cpu = 1e30, 1e30
    for _ in range(STEPS):
        start, used = time.perf_counter(), time.process_time()
        step()
        wall, cpu = min(wall, time.perf_counter() - start), min(cpu, time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "version": torch.__version__}))


def peer(precision):
    said = subprocess.run([sys.executable, __file__, "--train", precision], env={**os.environ, **TUNED},
                          check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])


def ours(program, precision):
    said = subprocess.run([program, f"--benchmark_filter=training_step/{precision}_fused", "--benchmark_format=json"],
                          check=True, capture_output=True, text=True).stdout
    result = json.loads(said)["benchmarks"][0]
    return {"wall": result["best_seconds"], "cpu": result["best_cpu_seconds"], "floor": result["floor_seconds"],
            "peak": result["process_peak_GiB"]}


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/training_step_benchmark"
    for precision in ("f32", "bf16"):
        turns = [(peer(precision), ours(program, precision)) for _ in range(TURNS)]
        theirs, own = ({key: min(turn[side][key] for turn in turns) for key in ("wall", "cpu", "peak")} for side in (0, 1))
        print(f"{precision}: PyTorch {turns[0][0]['version']} {theirs['wall']:.2f} s ({theirs['cpu']:.2f} CPU s, "
              f"{theirs['peak']:.2f} GiB); autotune {own['wall']:.2f} s ({own['cpu']:.2f} CPU s, {own['peak']:.2f} GiB); "
              f"{theirs['wall'] / own['wall']:.2f} times as fast by the clock, {theirs['cpu'] / own['cpu']:.2f} by CPU "
              f"time; load {os.getloadavg()[0]:.1f}")


if sys.argv[1:2] == ["--train"]:
    train(sys.argv[2] == "bf16")
else:
    main()
