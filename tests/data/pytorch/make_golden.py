"""Makes the golden files beside it: tiny models with weights of our own, and what PyTorch says of them.

For a GPT-2 and a Llama it writes a checkpoint as Hugging Face's transformers does (config.json,
model.safetensors), and expected.safetensors: tokens i32[sequences, seq + 1], logits f32[sequences, seq,
vocab], the mean loss, and the gradient of every weight under the weight's name.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers safetensors
    /tmp/venv/bin/python tests/data/pytorch/make_golden.py
"""
import json
import pathlib

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SEQUENCES, SEQ, VOCAB = 2, 6, 19

MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCAB, n_positions=SEQ, n_embd=8, n_layer=2, n_head=2, n_inner=16, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": (LlamaForCausalLM, LlamaConfig(
        vocab_size=VOCAB, max_position_embeddings=SEQ, hidden_size=8, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, intermediate_size=12, rms_norm_eps=1e-5,
        rope_theta=10000.0, tie_word_embeddings=False)),
}
CONFIG_KEYS = {
    "gpt2": ["model_type", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner",
             "activation_function", "layer_norm_epsilon", "resid_pdrop", "embd_pdrop", "attn_pdrop"],
    "llama": ["model_type", "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers",
              "num_attention_heads", "num_key_value_heads", "intermediate_size", "rms_norm_eps",
              "rope_theta", "tie_word_embeddings", "hidden_act"],
}


def draw_weights(model):
    """Weights that bf16 holds exactly, large enough that every term counts."""
    for parameter in model.parameters():
        mean = 1.0 if parameter.dim() == 1 and parameter.mean() > 0.5 else 0.0
        parameter.data = (mean + 0.3 * torch.randn_like(parameter)).bfloat16().float()


def make(name, folder):
    torch.manual_seed(2024)
    make_model, config = MODELS[name]
    model = make_model(config)
    draw_weights(model)
    tokens = torch.randint(VOCAB, (SEQUENCES, SEQ + 1))
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))
    loss.backward()

    folder.mkdir(exist_ok=True)
    # Every parameter once: tied ones under the first name. Buffers are no weights.
    parameters = dict(model.named_parameters())
    save_file({key: p.detach().bfloat16() for key, p in parameters.items()},
              folder / "model.safetensors")
    expected = {key: p.grad.contiguous() for key, p in parameters.items()}
    expected.update(tokens=tokens.int(), logits=logits.detach().contiguous(), loss=loss.detach().reshape(1))
    save_file(expected, folder / "expected.safetensors")
    settings = config.to_dict()
    settings.setdefault("rope_theta", 10000.0)
    kept = {key: settings[key] for key in CONFIG_KEYS[name]}
    (folder / "config.json").write_text(json.dumps(kept, indent=2) + "\n")
    print(f"{name}: loss {loss.item():.6f}, torch {torch.__version__}")


for each in MODELS:
    make(each, pathlib.Path(__file__).parent / each)
