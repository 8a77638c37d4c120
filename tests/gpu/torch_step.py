"""One training step of the benchmark's GPT in PyTorch, eager and compiled: the peer on the same GPU."""
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, SEQ, VOCAB, BATCH = 4096, 8, 32, 2048, 50304, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, seq, hidden = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, hidden // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).float().view(-1, VOCAB), targets.view(-1))


def measure(compiled):
    torch.manual_seed(0)
    model = Gpt().cuda()
    step_model = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids, targets = (torch.randint(VOCAB, (BATCH, SEQ), device="cuda") for _ in range(2))
    times = []
    for step in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step_model(ids, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 4:
            times.append(time.perf_counter() - start)
    name = f"PyTorch {torch.__version__} {'compiled' if compiled else 'eager'}: step"
    print(json.dumps({"name": name, "value": 1e3 * statistics.median(times), "unit": "ms"}), flush=True)


if not torch.cuda.is_available():
    sys.exit("PyTorch sees no GPU")
measure(compiled=False)
try:
    measure(compiled=True)
except Exception as error:  # its compiler needs Triton and a C compiler, which may be missing
    print(f"PyTorch does not compile the step here: {error}", file=sys.stderr)
