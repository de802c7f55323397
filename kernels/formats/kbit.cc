// SPDX-License-Identifier: Apache-2.0
//
// Decoding of both layouts. Flat E4M4 scales pass straight through; all other
// absmax are held until they are complete, because the tensor scale depends
// on the largest.

#include "kernels/formats/kbit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/formats/e4m4.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

constexpr int64_t kTileRows = 128;
constexpr int64_t kTileBlocks = 2;  // along k

absl::StatusOr<float> TensorScaleOf(AbsmaxAt absmax,
                                    const WeightsHeader& header) {
  E4m4Range range;
  for (int64_t row = 0; row < header.n; ++row) {
    for (int64_t block = 0; block < header.groups_per_row(); ++block) {
      const float value = absmax(row, block);
      if (!(value >= 0) || std::isinf(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("scales: absmax of row ", row, ", block ", block,
                         " = ", value, ": must be finite and not negative"));
      }
      range.Add(value);
    }
  }
  return range.TensorScale();
}

class KbitDecoder final : public SectionDecoder {
 public:
  KbitDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        blocks_per_row_(spec.k / kKbitBlock),
        tiled_(spec.kbit_layout == KbitLayout::kTiled),
        scales_(blocks_per_row_),
        codes_(KbitBlockBytes(spec.bits) *
                   (tiled_ ? kTileRows * kTileBlocks : blocks_per_row_),
               tiled_ ? 1 : PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section section,
                       absl::Span<const uint8_t> bytes) override;
  absl::Status OnSectionEnd(Section section) override;

 private:
  bool scales_pass_through() const {
    return !tiled_ && spec().scale_type == ScaleType::kE4m4;
  }
  // Bytes of the scales section.
  int64_t WireAbsmaxBytes() const;
  // Index of a block's scale on the wire.
  int64_t WireIndex(int64_t row, int64_t block) const;
  absl::Status WriteUntiledE4m4();
  absl::Status WriteConverted();
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status WriteTile(int64_t tile, const uint8_t* bytes);

  const int64_t blocks_per_row_;
  const bool tiled_;
  RecordStream scales_;          // rows, if they pass through
  std::vector<uint8_t> absmax_;  // in wire order, otherwise
  RecordStream codes_;           // rows or tiles
  std::vector<uint8_t> panel_;
};

absl::Status KbitDecoder::OnBytes(Section section,
                                  absl::Span<const uint8_t> bytes) {
  if (section == Section::kCodes) {
    return codes_.Append(
        bytes, [&](int64_t first, int64_t count, const uint8_t* records) {
          return tiled_ ? WriteTile(first, records)
                        : WriteRows(first, count, records);
        });
  }
  if (!scales_pass_through()) {
    if (absmax_.empty()) absmax_.reserve(WireAbsmaxBytes());
    absmax_.insert(absmax_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  return scales_.Append(
      bytes, [&](int64_t row, int64_t rows, const uint8_t* records) {
        return sink().WriteScales(
            {row,
             rows,
             0,
             blocks_per_row_,
             {records, static_cast<size_t>(rows * blocks_per_row_)}});
      });
}

absl::Status KbitDecoder::OnSectionEnd(Section section) {
  if (section != Section::kScales || scales_pass_through()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(spec().scale_type == ScaleType::kE4m4 ? WriteUntiledE4m4()
                                                        : WriteConverted());
  absmax_ = {};
  return absl::OkStatus();
}

int64_t KbitDecoder::WireAbsmaxBytes() const {
  // The last tile along k may hold one block and padding.
  const int64_t blocks =
      tiled_ ? RoundUp(blocks_per_row_, kTileBlocks) : blocks_per_row_;
  return spec().n * blocks * SizeOf(spec().scale_type);
}

int64_t KbitDecoder::WireIndex(int64_t row, int64_t block) const {
  if (!tiled_) return row * blocks_per_row_ + block;
  const int64_t row_tiles = spec().n / kTileRows;
  const int64_t tile = block / kTileBlocks * row_tiles + row / kTileRows;
  return (tile * kTileRows + row % kTileRows) * kTileBlocks +
         block % kTileBlocks;
}

absl::Status KbitDecoder::WriteUntiledE4m4() {
  std::vector<uint8_t> scales(blocks_per_row_);
  for (int64_t row = 0; row < spec().n; ++row) {
    for (int64_t block = 0; block < blocks_per_row_; ++block) {
      scales[block] = absmax_[WireIndex(row, block)];
    }
    RETURN_IF_ERROR(sink().WriteScales({row, 1, 0, blocks_per_row_, scales}));
  }
  return absl::OkStatus();
}

absl::Status KbitDecoder::WriteConverted() {
  const int64_t size = SizeOf(spec().scale_type);
  const auto absmax = [&](int64_t row, int64_t block) {
    return LoadScale(spec().scale_type, &absmax_[WireIndex(row, block) * size]);
  };
  return WriteAbsmax(absmax, header(), &sink(), &report());
}

absl::Status KbitDecoder::WriteRows(int64_t row, int64_t rows,
                                    const uint8_t* bytes) {
  panel_.resize(rows * spec().k);
  UnpackKbit(spec().bits, bytes, rows * blocks_per_row_, panel_.data());
  return sink().WriteCodes({row, rows, 0, spec().k, panel_});
}

absl::Status KbitDecoder::WriteTile(int64_t tile, const uint8_t* bytes) {
  const int64_t row_tiles = spec().n / kTileRows;
  const int64_t block = tile / row_tiles * kTileBlocks;
  // The last tile along k may hold one block and padding.
  const int64_t blocks = std::min(kTileBlocks, blocks_per_row_ - block);
  const int64_t columns = blocks * kKbitBlock;
  panel_.resize(kTileRows * columns);
  for (int64_t row = 0; row < kTileRows; ++row) {
    UnpackKbit(spec().bits,
               bytes + row * kTileBlocks * KbitBlockBytes(spec().bits), blocks,
               panel_.data() + row * columns);
  }
  return sink().WriteCodes({tile % row_tiles * kTileRows, kTileRows,
                            block * kKbitBlock, columns, panel_});
}

}  // namespace

absl::Status WriteAbsmax(AbsmaxAt absmax, const WeightsHeader& header,
                         WeightsSink* sink, DecodeReport* report) {
  ASSIGN_OR_RETURN(const float tensor_scale, TensorScaleOf(absmax, header));
  if (tensor_scale != 1.0f) {
    RETURN_IF_ERROR(sink->SetTensorScale(tensor_scale));
  }
  const float inverse = 1.0f / tensor_scale;  // exact, a power of two
  const int64_t groups = header.groups_per_row();
  const int64_t panel_rows = std::min(header.n, PanelRows(groups));
  std::vector<uint8_t> scales;
  scales.reserve(panel_rows * groups);
  for (int64_t first = 0; first < header.n; first += panel_rows) {
    const int64_t rows = std::min(panel_rows, header.n - first);
    scales.clear();
    for (int64_t i = 0; i < rows * groups; ++i) {
      const float value = absmax(first + i / groups, i % groups);
      scales.push_back(FloatToE4m4(value * inverse));
      if (value != 0 && scales.back() == 0) ++report->flushed_blocks;
    }
    RETURN_IF_ERROR(sink->WriteScales({first, rows, 0, groups, scales}));
  }
  return absl::OkStatus();
}

std::unique_ptr<WeightsDecoder> NewKbitDecoder(const WeightsSpec& spec,
                                               WeightsSink* sink) {
  return std::make_unique<KbitDecoder>(spec, sink);
}

}  // namespace qgemm
