// SPDX-License-Identifier: Apache-2.0
//
// Writes names.

#include "loadtest/workload/synthetic_name.h"

#include "absl/strings/str_cat.h"

namespace qgemm {

std::string SyntheticName(const SyntheticLayer& layer) {
  return absl::StrCat("loadtest/", layer.format, "/", layer.shape.k, "x",
                      layer.shape.n, "/", layer.seed, "/", layer.index);
}

}  // namespace qgemm
