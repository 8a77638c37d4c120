// Shapes from published config.json files, with the parameters that the checkpoints hold.
// Sources: config.json and the parameter count of the model pages of openai-community/gpt2*,
// EleutherAI, facebook/opt-*, bigscience/bloom, meta-llama, mistralai, Qwen, google/gemma-*,
// microsoft/phi-*, deepseek-ai, openai/gpt-oss-*, tiiuae/falcon-*, THUDM, bigcode, mosaicml,
// CohereLabs.
#pragma once
#include <cstdint>

namespace engine {

struct PublishedConfig {
  const char* name;
  int64_t parameters;
  const char* config;
};

// clang-format off
constexpr PublishedConfig kPublishedConfigs[] = {
    {"gpt2", 124439808, R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})"},
    {"gpt2-xl", 1557611200, R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "vocab_size": 50257})"},
    {"gpt-neox-20b", 20554567680, R"({"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432})"},
    {"pythia-6.9b", 6857302016, R"({"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432})"},
    {"opt-6.7b", 6658473984, R"({"model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "ffn_dim": 16384, "vocab_size": 50272, "max_position_embeddings": 2048})"},
    {"opt-350m", 331196416, R"({"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 512, "do_layer_norm_before": false})"},
    {"bloom-176b", 176247271424, R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880})"},
    {"llama-2-7b", 6738415616, R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000, "tie_word_embeddings": false})"},
    {"llama-3.1-8b", 8030261248, R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": false})"},
    {"llama-3.1-70b", 70553706496, R"({"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "tie_word_embeddings": false})"},
    {"llama-3.1-405b", 405853388800, R"({"model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256, "tie_word_embeddings": false})"},
    {"llama-3.2-1b", 1235814400, R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": true})"},
    {"mistral-7b", 7241732096, R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "tie_word_embeddings": false})"},
    {"mistral-nemo-12b", 12247782400, R"({"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 131072, "tie_word_embeddings": false})"},
    {"qwen2-7b", 7615616512, R"({"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": false})"},
    {"qwen2.5-0.5b", 494032768, R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": true})"},
    {"qwen1.5-moe-a2.7b", 14315784192, R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936, "tie_word_embeddings": false})"},
    {"qwen3-8b", 8190735360, R"({"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936, "tie_word_embeddings": false})"},
    {"qwen3-0.6b", 596049920, R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": true})"},
    {"qwen3-30b-a3b", 30532122624, R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936, "tie_word_embeddings": false})"},
    {"qwen3-235b-a22b", 235093634560, R"({"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936, "tie_word_embeddings": false})"},
    {"gemma-7b", 8537680896, R"({"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000})"},
    {"gemma-2-9b", 9241705984, R"({"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000})"},
    {"phi-2", 2779683840, R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10240, "vocab_size": 51200})"},
    {"phi-3-mini", 3821079552, R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064, "tie_word_embeddings": false})"},
    {"mixtral-8x7b", 46702792704, R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "tie_word_embeddings": false})"},
    {"mixtral-8x22b", 140620634112, R"({"model_type": "mixtral", "hidden_size": 6144, "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 16384, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "tie_word_embeddings": false})"},
    {"deepseek-v3", 671026419200, R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "intermediate_size": 18432, "first_k_dense_replace": 3, "vocab_size": 129280, "topk_method": "noaux_tc"})"},
    {"gpt-oss-20b", 20914757184, R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32, "vocab_size": 201088, "num_experts_per_tok": 4})"},
    {"gpt-oss-120b", 116829156672, R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128, "vocab_size": 201088, "num_experts_per_tok": 4})"},
    {"deepseek-v2-lite", 15706484224, R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "intermediate_size": 10944, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 102400, "topk_method": "greedy"})"},
    {"gpt-j-6b", 6050882784, R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048, "rotary_dim": 64, "vocab_size": 50400})"},
    {"falcon-rw-1b", 1311625216, R"({"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "alibi": true, "bias": true, "multi_query": false, "parallel_attn": false, "vocab_size": 50304})"},
    {"falcon-7b", 6921720704, R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false, "vocab_size": 65024})"},
    {"falcon-40b", 41303293952, R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture": true, "bias": false, "vocab_size": 65024})"},
    {"chatglm3-6b", 6243584000, R"({"model_type": "chatglm", "hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32, "multi_query_attention": true, "multi_query_group_num": 2, "kv_channels": 128, "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "seq_length": 8192, "add_qkv_bias": true, "add_bias_linear": false, "tie_word_embeddings": false})"},
    {"starcoder", 15517456384, R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "multi_query": true, "vocab_size": 49152})"},
    {"starcoder2-7b", 7173923840, R"({"model_type": "starcoder2", "hidden_size": 4608, "num_hidden_layers": 32, "num_attention_heads": 36, "num_key_value_heads": 4, "intermediate_size": 18432, "use_bias": true, "max_position_embeddings": 16384, "vocab_size": 49152})"},
    {"mpt-7b", 6649286656, R"({"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "max_seq_len": 2048, "no_bias": true, "vocab_size": 50432})"},
    {"command-r-35b", 34980831232, R"({"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528, "vocab_size": 256000})"},
};
// clang-format on

}  // namespace engine
