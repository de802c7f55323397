// SPDX-License-Identifier: Apache-2.0
//
// Scales and codes come interleaved and leave as two panels.

#include "kernels/formats/q4_0.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/float16.h"
#include "base/status_macros.h"
#include "kernels/formats/little_endian.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

constexpr int64_t kHalf = kQ4_0Block / 2;

void UnpackNibbles(const uint8_t* nibbles, uint8_t* codes) {
  for (int64_t j = 0; j < kHalf; ++j) {
    codes[j] = nibbles[j] & 15;
    codes[kHalf + j] = nibbles[j] >> 4;
  }
}

bool IsFiniteHalf(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

class Q4_0Decoder final : public SectionDecoder {
 public:
  Q4_0Decoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        blocks_per_row_(spec.k / kQ4_0Block),
        rows_(blocks_per_row_ * kQ4_0BlockBytes, PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section, absl::Span<const uint8_t> bytes) override {
    return rows_.Append(bytes,
                        [&](int64_t row, int64_t rows, const uint8_t* records) {
                          return WriteRows(row, rows, records);
                        });
  }

 private:
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status NotFinite(int64_t block, uint16_t scale) const;

  const int64_t blocks_per_row_;
  RecordStream rows_;
  std::vector<uint8_t> scales_;
  std::vector<uint8_t> codes_;
};

absl::Status Q4_0Decoder::WriteRows(int64_t row, int64_t rows,
                                    const uint8_t* bytes) {
  const int64_t blocks = rows * blocks_per_row_;
  scales_.resize(blocks * 2);
  codes_.resize(blocks * kQ4_0Block);
  for (int64_t block = 0; block < blocks; ++block) {
    const uint8_t* source = bytes + block * kQ4_0BlockBytes;
    const uint16_t scale = LoadLittle<uint16_t>(source);
    if (!IsFiniteHalf(scale)) {
      return NotFinite(row * blocks_per_row_ + block, scale);
    }
    StoreLittle(scale, &scales_[2 * block]);
    UnpackNibbles(source + 2, &codes_[block * kQ4_0Block]);
  }
  RETURN_IF_ERROR(sink().WriteScales({row, rows, 0, blocks_per_row_, scales_}));
  return sink().WriteCodes({row, rows, 0, spec().k, codes_});
}

absl::Status Q4_0Decoder::NotFinite(int64_t block, uint16_t scale) const {
  return absl::InvalidArgumentError(
      absl::StrCat("codes: d of row ", block / blocks_per_row_, ", block ",
                   block % blocks_per_row_, " = ", Float16ToFloat(scale),
                   ": must be finite"));
}

}  // namespace

void PackQ4_0(const uint8_t* scale, const uint8_t* codes, uint8_t* block) {
  std::copy_n(scale, 2, block);
  for (int64_t j = 0; j < kHalf; ++j) {
    block[2 + j] = codes[j] | codes[kHalf + j] << 4;
  }
}

std::unique_ptr<WeightsDecoder> NewQ4_0Decoder(const WeightsSpec& spec,
                                               WeightsSink* sink) {
  return std::make_unique<Q4_0Decoder>(spec, sink);
}

}  // namespace qgemm
