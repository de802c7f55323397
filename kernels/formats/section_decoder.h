// SPDX-License-Identifier: Apache-2.0
//
// Base of all decoders: the order and size of sections, the sections that come
// before the sink's Begin, and checks of values.

#ifndef QGEMM_KERNELS_FORMATS_SECTION_DECODER_H_
#define QGEMM_KERNELS_FORMATS_SECTION_DECODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// Collects codebook, group index and bias, begins the sink, then hands the
// bytes of scales, zeros and codes to the format. After an error every call
// returns that error. Not thread-safe.
class SectionDecoder : public WeightsDecoder {
 public:
  absl::Status Append(Section section, absl::Span<const uint8_t> bytes) final;
  absl::StatusOr<DecodeReport> Finish() final;

 protected:
  // The spec is valid; the sink outlives the decoder.
  SectionDecoder(const WeightsSpec& spec, WeightsSink* sink);

  // The next bytes of kScales, kZeros or kCodes; never more than the section
  // has.
  virtual absl::Status OnBytes(Section section,
                               absl::Span<const uint8_t> bytes) = 0;
  // The section's last byte has been given to OnBytes.
  virtual absl::Status OnSectionEnd(Section section);

  const WeightsSpec& spec() const { return spec_; }
  // Complete from the first OnBytes on.
  const WeightsHeader& header() const { return header_; }
  WeightsSink& sink() { return *sink_; }
  DecodeReport& report() { return report_; }

 private:
  absl::Status AppendInOrder(Section section, absl::Span<const uint8_t> bytes);
  absl::Status EndSection();
  // Moves a collected section into the header.
  absl::Status TakeMetadata(Section section);
  // Begins the sink unless metadata is still to come.
  absl::Status BeginIfDue();

  const WeightsSpec spec_;
  const std::vector<SectionSize> sections_;
  WeightsSink* const sink_;
  WeightsHeader header_;
  DecodeReport report_;
  absl::Status status_;
  bool begun_ = false;
  size_t position_ = 0;            // in sections_
  int64_t received_ = 0;           // bytes of sections_[position_]
  std::vector<uint8_t> metadata_;  // of sections_[position_]
};

// OK if all values are finite, else INVALID_ARGUMENT "what[i] = value".
absl::Status CheckFinite(absl::Span<const float> values,
                         absl::string_view what);

// OK if every scale of the panel is finite, else INVALID_ARGUMENT with the row
// and group of the first that is not.
absl::Status CheckScales(const GroupPanel& panel, ScaleType type);

// GPTQ's act-order: from the group of each input feature to the order in which
// groups are contiguous, members of one group in their own order; result[j] is
// the feature at position j. INVALID_ARGUMENT if an entry is not a group or a
// group has not exactly `group_size` members.
absl::StatusOr<std::vector<int32_t>> SortByGroup(
    absl::Span<const int32_t> group_index, int64_t group_size);

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_SECTION_DECODER_H_
