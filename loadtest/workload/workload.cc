// SPDX-License-Identifier: Apache-2.0
//
// Puts the picks of layers, rows and inputs together.

#include "loadtest/workload/workload.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "loadtest/workload/request_hash.h"

namespace qgemm {

absl::StatusOr<Workload> Workload::Create(const WorkloadOptions& options) {
  if (options.inputs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--inputs=", options.inputs, ": must be 1 or more"));
  }
  ASSIGN_OR_RETURN(LayerPicker layers, LayerPicker::Create(options.layers));
  return Workload(options, std::move(layers));
}

RequestPick Workload::Pick(int64_t client, int64_t sequence) const {
  const uint64_t seed = options_.layers.seed;
  const int64_t pass = layers_.Pass(client, sequence);
  const uint64_t row_bits =
      HashRequest(seed, HashPurpose::kRowClass, client, pass);
  const uint64_t input_bits =
      HashRequest(seed, HashPurpose::kInput, client, sequence);
  RequestPick pick;
  pick.layer = layers_.Pick(client, sequence);
  pick.row_class = options_.rows.Pick(UnitInterval(row_bits));
  pick.input = static_cast<int>(BelowCount(input_bits, options_.inputs));
  return pick;
}

}  // namespace qgemm
