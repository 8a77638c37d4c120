// Reading and writing of machine descriptions: the JSON objects that profiles/README.md documents.
#pragma once
#include "engine/base/json_reader.h"
#include "tuner/model/cluster_spec.h"

namespace tuner {

// The members of a GPU file that describe the device itself. Every number is either an object
// {value, kind, source} or, in a user's own file, a plain number. Problems are added to the
// reader's.
DeviceSpec read_device(engine::ObjectReader& file);

// The content of an "interconnect" object.
Interconnect read_interconnect(engine::ObjectReader object);

nlohmann::json device_to_json(const DeviceSpec& device);
nlohmann::json interconnect_to_json(const Interconnect& interconnect);

}  // namespace tuner
