// The tables of the store, as steps from one version of the format to the next.
#pragma once
#include <cstdint>

#include "tuner/store/database.h"

namespace tuner {

// The version that this program reads and writes.
int64_t schema_version();

// Brings a new or older database to our version, in one transaction. Throws engine::Error (storage)
// when it is newer than ours or belongs to another program; it is then left as it is.
void migrate(Database& database);

}  // namespace tuner
