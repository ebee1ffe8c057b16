// MIG geometries: which instances a GPU can be divided into, with their source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/model/mig.h"

namespace corun {

/// Of a GPU by its name or product; none: it cannot be divided, or nobody has written down how.
std::optional<MigGeometry> mig_geometry(const Gpu& gpu);
/// Names of the GPUs for which there is one.
std::vector<std::string> gpus_with_mig();

}  // namespace corun
