// SPDX-License-Identifier: Apache-2.0

#include "loadtest/workload/workload.h"

#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "loadtest/workload/model.h"

namespace qgemm::loadtest {
namespace {

constexpr double kMaxWeight = 1e9;
constexpr size_t kMaxClasses = 64;

absl::Status BadMix(absl::string_view entry, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat("\"", entry, "\": ", allowed));
}

absl::StatusOr<RowClass> ParseEntry(absl::string_view entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits(':', 1));
  RowClass parsed;
  if (!absl::SimpleAtoi(parts.first, &parsed.rows) || parsed.rows < 1 ||
      parsed.rows > kMaxExtent) {
    return BadMix(entry, absl::StrCat("rows must be 1 to ", kMaxExtent));
  }
  const bool has_weight = parts.first.size() < entry.size();
  if (has_weight && !(absl::SimpleAtod(parts.second, &parsed.share) &&
                      parsed.share > 0 && parsed.share <= kMaxWeight)) {
    return BadMix(entry, absl::StrCat("a weight must be above 0 and at most ",
                                      kMaxWeight));
  }
  return parsed;
}

// Each purpose has random bits of its own.
enum class HashPurpose : uint64_t {
  kLayer = 1,
  kWalkStart,
  kRowClass,
  kInput,
};

// Bits for one request, independent of those of other requests, seeds and
// purposes.
constexpr uint64_t HashRequest(uint64_t seed, HashPurpose purpose,
                               int64_t client, int64_t sequence) {
  uint64_t hash = MixBits(seed ^ (static_cast<uint64_t>(purpose) << 56));
  hash = MixBits(hash ^ static_cast<uint64_t>(client));
  return MixBits(hash ^ static_cast<uint64_t>(sequence));
}

// P(layer <= i) of each layer i.
std::vector<double> ZipfEnds(int layers, double exponent) {
  std::vector<double> ends;
  double sum = 0;
  for (int i = 0; i < layers; ++i) {
    sum += std::pow(i + 1, -exponent);
    ends.push_back(sum);
  }
  for (double& end : ends) end /= sum;
  return ends;
}

}  // namespace

RowMix::RowMix(std::vector<RowClass> classes) : classes_(std::move(classes)) {
  double total = 0;
  for (const RowClass& row_class : classes_) total += row_class.share;
  double sum = 0;
  for (RowClass& row_class : classes_) {
    sum += row_class.share;
    share_ends_.push_back(sum / total);
    row_class.share /= total;
  }
}

int RowMix::Pick(double uniform) const {
  // The last end is total / total: exactly 1, and above every `uniform`.
  const auto end = absl::c_upper_bound(share_ends_, uniform);
  return static_cast<int>(end - share_ends_.begin());
}

absl::StatusOr<RowMix> ParseRowMix(absl::string_view text) {
  std::vector<RowClass> classes;
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const RowClass parsed, ParseEntry(entry));
    const bool is_repeated = absl::c_any_of(
        classes,
        [&](const RowClass& other) { return other.rows == parsed.rows; });
    if (is_repeated) {
      return BadMix(entry, "each number of rows must come once");
    }
    classes.push_back(parsed);
    if (classes.size() > kMaxClasses) {
      return BadMix(entry,
                    absl::StrCat("must be at most ", kMaxClasses, " entries"));
    }
  }
  return RowMix(std::move(classes));
}

Workload::Workload(const WorkloadOptions& options) : options_(options) {
  if (options.zipf_exponent > 0) {
    zipf_ends_ = ZipfEnds(options.layers, options.zipf_exponent);
  }
}

int64_t Workload::WalkPosition(int64_t client, int64_t sequence) const {
  const uint64_t bits =
      HashRequest(options_.seed, HashPurpose::kWalkStart, client, 0);
  return sequence + static_cast<int64_t>(BelowCount(bits, options_.layers));
}

int Workload::PickLayer(int64_t client, int64_t sequence) const {
  if (options_.walk) {
    return static_cast<int>(WalkPosition(client, sequence) % options_.layers);
  }
  if (zipf_ends_.empty()) {
    return static_cast<int>((client + sequence) % options_.layers);
  }
  const uint64_t bits =
      HashRequest(options_.seed, HashPurpose::kLayer, client, sequence);
  // The last end is sum / sum: exactly 1, and above every pick.
  const auto end = absl::c_upper_bound(zipf_ends_, UnitInterval(bits));
  return static_cast<int>(end - zipf_ends_.begin());
}

RequestPick Workload::Pick(int64_t client, int64_t sequence) const {
  const int64_t pass = options_.walk
                           ? WalkPosition(client, sequence) / options_.layers
                           : sequence;
  const uint64_t row_bits =
      HashRequest(options_.seed, HashPurpose::kRowClass, client, pass);
  const uint64_t input_bits =
      HashRequest(options_.seed, HashPurpose::kInput, client, sequence);
  RequestPick pick;
  pick.layer = PickLayer(client, sequence);
  pick.row_class = options_.rows.Pick(UnitInterval(row_bits));
  pick.input = static_cast<int>(BelowCount(input_bits, options_.inputs));
  return pick;
}

}  // namespace qgemm::loadtest
