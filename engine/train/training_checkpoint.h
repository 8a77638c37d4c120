// Checkpoints of a training: every rank writes and reads its own slices, under any plan.
#pragma once
#include <string>

#include "engine/train/trainer.h"

namespace engine {

// Writes ROOT/step-N after N steps: weights (bf16 when they are trained in it, then with master
// weights beside), and the state of the optimizer. All ranks call it together; the folder is one
// that all see. Throws Error (storage); a checkpoint of the same step stays until the new one is
// whole. Returns its path on rank 0.
std::string save_checkpoint(Trainer& trainer, const std::string& root);

// Reads a checkpoint, or the latest of a folder of them, into the trainer: weights of any origin,
// and where a training left off. All ranks call it together. Throws InputError.
void load_checkpoint(Trainer& trainer, const std::string& folder);

}  // namespace engine
