// The documentation of every code.
#include "tuner/space/codes.h"

namespace tuner {
namespace {

constexpr RuleDocument kDocuments[] = {
    {"AT0101", "the degrees do not multiply to the number of GPUs",
     "Every GPU is one rank of the grid tp · pp · cp · dp; expert ranks lie within dp · cp.",
     "Set dp to GPUs / (tp · pp · cp), or change the number of GPUs."},
    {"AT0102", "tp does not divide the attention heads",
     "Tensor parallelism gives every rank whole attention heads.",
     "Take a tp that divides the heads; the heads of a model are listed by `autotune models "
     "NAME`."},
    {"AT0103", "tp does not fit the KV heads",
     "With grouped-query attention the KV heads are divided too; newer stacks replicate them where "
     "tp "
     "is a multiple of their number, older ones refuse.",
     "Take a tp that divides the KV heads, or a stack that replicates them."},
    {"AT0104", "the global batch is no multiple of mbs · dp",
     "Every data-parallel replica takes the same whole number of micro-batches.",
     "Change mbs, dp or the global batch to the values named."},
    {"AT0105", "the sequence does not divide into 2 · cp blocks",
     "Context ranks take one early and one late block each, so that causal attention costs them "
     "the "
     "same.",
     "Pad the sequence to a multiple of 2 · cp, or lower cp."},
    {"AT0106", "the sequence does not divide over the tensor ranks",
     "Sequence parallelism splits the tokens of every context rank over tp; with both, the "
     "sequence "
     "must be a multiple of cp · lcm(2, tp).",
     "Pad the sequence, lower tp or cp, or switch sequence parallelism off."},
    {"AT0107", "tp does not divide the MLP width",
     "The first MLP matrix is split by columns, the second by rows.",
     "Take a tp that divides the MLP width."},
    {"AT0109", "interleaving without enough pipeline stages",
     "Model chunks take turns between ranks of a pipeline. Without overlapped messages two stages "
     "would "
     "wait for each other, so older releases ask for three.",
     "Set vpp 1, or more stages."},
    {"AT0110", "interleaving with micro-batches that do not form groups of pp",
     "Each chunk runs a group of pp micro-batches before the next chunk takes over. Newer releases "
     "allow "
     "other groups, but no remainder between 1 and pp − 1.",
     "Choose batch, mbs or dp so that pp divides the micro-batches, or set vpp 1."},
    {"AT0111", "fewer micro-batches than pipeline stages",
     "This stack starts a step by filling the pipeline, and stops or hangs when it cannot.",
     "Lower pp or mbs, or raise the global batch."},
    {"AT0112", "the layers do not divide over the pipeline",
     "Equal stages need layers divisible by pp · vpp. Some frameworks drop the rest silently and "
     "train "
     "a smaller model.",
     "Take a pp and vpp whose product divides the layers, or give the first and last stage other "
     "shares "
     "(--layers-per-stage)."},
    {"AT0113", "full:N recomputes more layers than a stage chunk has",
     "N counts layers of every stage chunk: at least 1 and at most layers / (pp · vpp).",
     "Lower N, or write recompute full."},
    {"AT0114", "layers_per_stage does not place the layers of the model",
     "The list needs one entry a stage, at least one layer each, and must sum to the layers of the "
     "model. Stacks that only know a different first and last stage need equal ones between.",
     "Take one of the lists named."},
    {"AT0115", "the sequence is longer than the model's positions",
     "Learned positions end with their table; rotary ones are untrained beyond it.",
     "Shorten the sequence, or extend the positions of the model."},
    {"AT0116", "sequence parallelism without tensor parallelism",
     "SP splits what tensor parallelism leaves whole; at tp 1 there is nothing to split, and "
     "frameworks "
     "switch it off without a word.",
     "Leave SP off, or raise tp."},
    {"AT0120", "the stack has no tensor parallelism",
     "Splitting the matrices of a layer needs collectives inside its layers, which this software "
     "does not have.",
     "Set tp 1, or choose another stack."},
    {"AT0121", "the stack has no pipeline parallelism",
     "Stages need a schedule that sends activations between them, which this software does not "
     "have.",
     "Set pp 1, or choose another stack."},
    {"AT0122", "the stack has no context parallelism",
     "Splitting a sequence needs attention that passes keys and values between ranks, which this "
     "software does not have.",
     "Set cp 1, or choose another stack."},
    {"AT0123", "the stack has no sequence parallelism",
     "This software keeps norms and dropout whole on every tensor rank.",
     "Use --no-sp, or choose another stack."},
    {"AT0124", "the stack does not interleave",
     "Its pipeline gives every rank one chunk of consecutive layers.",
     "Set vpp 1, or choose another stack."},
    {"AT0125", "the stack has no selective recomputation",
     "It saves what attention needs, or recomputes whole layers.",
     "Choose recompute none or full, or another stack."},
    {"AT0126", "the stack recomputes all layers or none",
     "Its switch is one for all layers of a stage.",
     "Choose recompute full or none, or another stack."},
    {"AT0127", "the stack does not have this ZeRO stage",
     "How far optimizer states, gradients and parameters are divided over the data-parallel ranks "
     "is a feature of the software.",
     "Take one of the stages named, or choose another stack."},
    {"AT0128", "this ZeRO stage cannot be combined with a pipeline",
     "ZeRO 2 and 3 scatter gradients after every micro-batch; a pipeline would do so for each of "
     "them "
     "and lose what it gains.",
     "Take ZeRO 0 or 1, or pp 1."},
    {"AT0129", "the GPU has no arithmetic of this precision",
     "Matrix products run in what the tensor cores take: bf16 from Ampere on, fp8 from Ada and "
     "Hopper on, 4-bit floats from Blackwell on. Weights of a served model may be narrower where "
     "the stack has kernels that widen them to 16 bits before the products.",
     "Choose a precision that is named, another GPU, or for serving a stack that widens such "
     "weights there."},
    {"AT0130", "the stack does not have this precision",
     "The formats of weights, products and KV cache are those that this software has kernels for.",
     "Choose a precision that is named, or another stack."},
    {"AT0131", "the stack has no such attention kernel",
     "Fused attention saves no scores and takes less time than the unfused one; both need kernels "
     "of the software.",
     "Choose an attention that is named, or another stack."},
    {"AT0132", "ep does not fit the experts",
     "Expert parallelism gives every rank the same number of whole experts.",
     "Take an ep that divides the experts; 1 for a dense model."},
    {"AT0133", "a mixture of experts with tp needs sequence parallelism",
     "Without SP every tensor rank would send the same tokens to the experts.", "Switch SP on."},
    {"AT0134", "ep does not fit the data-parallel ranks", "Expert ranks are taken from dp · cp.",
     "Take an ep that divides dp · cp."},
    {"AT0140", "distribute-saved-activations in a plan that excludes it",
     "It splits the saved inputs of fully recomputed layers over tp, which SP does already.",
     "Drop the option, or use tp > 1, full recomputation and no SP."},
    {"AT0141", "tp-comm-overlap without sequence parallelism",
     "The overlap hides the gathers and scatters of SP behind matrix products.", "Switch SP on."},
    {"AT0142", "offloading of activations with a pipeline or recomputation",
     "The offload runs in the order of one forward and one backward pass.",
     "Drop the offload, or set pp 1 and recompute none."},
    {"AT0151", "requests that arrive one by one on a stack of static batches",
     "Without in-flight batching a request waits until the batch before it has ended, so that a "
     "closed loop or a request rate says nothing about one request.",
     "Ask for a static batch (leave out --concurrency and --rate), or take a stack with in-flight "
     "batching."},
    {"AT0152", "the stack does not run this kind of model",
     "Attention, norms or experts of the model are of a kind that the stack has no code for: a "
     "plan could be predicted and never run.",
     "Choose a stack that runs the model."},
    {"AT0153", "ep does not fit tp or the experts",
     "A serving replica divides its tp ranks into ep groups that hold equally many whole experts; "
     "the tp / ep ranks of a group slice their width.",
     "Take an ep that divides tp and the experts, and for which tp / ep divides their width; 1 for "
     "a dense model."},
    {"AT0201", "the plan does not fit the memory of a GPU",
     "The fullest stage, with the error band of the memory model on top, is larger than what "
     "programs can use of the GPU. Of a served plan, what the stack leaves free of the memory "
     "counts instead of the band.",
     "Take a plan that is named as near, more GPUs, or more memory a GPU."},
    {"AT0301", "predictions do not cover this kind of model yet",
     "Hybrid layers, sparse attention and other rare shapes are counted, not predicted; for "
     "training, mixtures of experts and latent attention as well: a guess would mislead.",
     "Use a dense decoder."},
};

}  // namespace

std::span<const RuleDocument> rule_documents() { return kDocuments; }

}  // namespace tuner
