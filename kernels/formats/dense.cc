// SPDX-License-Identifier: Apache-2.0
//
// A decoder that keeps rows and one that quantizes them.

#include "kernels/formats/dense.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/float16.h"
#include "base/status_macros.h"
#include "kernels/formats/kbit.h"
#include "kernels/formats/little_endian.h"
#include "kernels/formats/record_stream.h"
#include "kernels/formats/row_quantizer.h"
#include "kernels/formats/section_decoder.h"

namespace qgemm {
namespace {

void LoadRow(FloatType type, const uint8_t* bytes, absl::Span<float> row) {
  switch (type) {
    case FloatType::kFloat32:
      std::memcpy(row.data(), bytes, row.size() * sizeof(float));
      return;
    case FloatType::kFloat16:
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = Float16ToFloat(LoadLittle<uint16_t>(bytes + 2 * i));
      }
      return;
    case FloatType::kBFloat16:
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = BFloat16ToFloat(LoadLittle<uint16_t>(bytes + 2 * i));
      }
      return;
  }
}

// Keeps the rows, in the resident type.
class KeptDenseDecoder final : public SectionDecoder {
 public:
  KeptDenseDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        row_(spec.k),
        rows_(spec.k * SizeOf(spec.dense_type), PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section, absl::Span<const uint8_t> bytes) override {
    return rows_.Append(bytes,
                        [&](int64_t row, int64_t rows, const uint8_t* records) {
                          return WriteRows(row, rows, records);
                        });
  }

 private:
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status ConvertRow(int64_t row, uint8_t* bytes) const;

  std::vector<float> row_;
  RecordStream rows_;
  std::vector<uint8_t> panel_;
};

absl::Status KeptDenseDecoder::WriteRows(int64_t row, int64_t rows,
                                         const uint8_t* bytes) {
  const int64_t row_bytes = spec().k * SizeOf(spec().resident_type);
  const size_t panel_bytes = rows * row_bytes;
  if (spec().dense_type == spec().resident_type) {
    return sink().WriteDense({row, rows, {bytes, panel_bytes}});
  }
  panel_.resize(panel_bytes);
  for (int64_t i = 0; i < rows; ++i) {
    LoadRow(spec().dense_type, bytes + i * spec().k * SizeOf(spec().dense_type),
            absl::MakeSpan(row_));
    RETURN_IF_ERROR(ConvertRow(row + i, panel_.data() + i * row_bytes));
  }
  return sink().WriteDense({row, rows, panel_});
}

absl::Status KeptDenseDecoder::ConvertRow(int64_t row, uint8_t* bytes) const {
  const bool half = spec().resident_type == FloatType::kFloat16;
  const uint16_t infinity = half ? 0x7c00u : 0x7f80u;
  for (int64_t column = 0; column < spec().k; ++column) {
    const float value = row_[column];
    const uint16_t bits = half ? FloatToFloat16(value) : FloatToBFloat16(value);
    if ((bits & 0x7fffu) == infinity && std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights: row ", row, ", column ", column, " = ", value,
                       ": too large for ", Name(spec().resident_type)));
    }
    StoreLittle(bits, bytes + 2 * column);
  }
  return absl::OkStatus();
}

// Quantizes the rows. kbit's absmax are held until all are known, because
// the tensor scale depends on the largest; other scales go with their rows.
class QuantizingDecoder final : public SectionDecoder {
 public:
  QuantizingDecoder(const WeightsSpec& spec, WeightsSink* sink)
      : SectionDecoder(spec, sink),
        row_(spec.k),
        quantized_(header()),
        rows_(spec.k * SizeOf(spec.dense_type), PanelRows(spec.k)) {}

 protected:
  absl::Status OnBytes(Section, absl::Span<const uint8_t> bytes) override {
    if (quantizer_ == nullptr) {
      quantizer_ = NewRowQuantizer(spec().quantize_to, header());
    }
    return rows_.Append(bytes,
                        [&](int64_t row, int64_t rows, const uint8_t* records) {
                          return WriteRows(row, rows, records);
                        });
  }

  absl::Status OnSectionEnd(Section) override {
    if (!holds_scales()) return absl::OkStatus();
    const int64_t blocks = header().groups_per_row();
    const auto absmax = [&](int64_t row, int64_t block) {
      return absmax_[row * blocks + block];
    };
    return WriteAbsmax(absmax, header(), &sink(), &report());
  }

 private:
  bool holds_scales() const {
    return spec().quantize_to == QuantizeTarget::kKbit;
  }
  absl::Status WriteRows(int64_t row, int64_t rows, const uint8_t* bytes);
  absl::Status QuantizeRow(int64_t row, const uint8_t* bytes);

  std::vector<float> row_;
  QuantizedRow quantized_;
  RecordStream rows_;
  std::unique_ptr<RowQuantizer> quantizer_;
  std::vector<float> absmax_;
  // One panel's rows.
  std::vector<uint8_t> codes_;
  std::vector<uint8_t> scales_;
  std::vector<uint8_t> zeros_;
};

absl::Status QuantizingDecoder::WriteRows(int64_t row, int64_t rows,
                                          const uint8_t* bytes) {
  codes_.clear();
  scales_.clear();
  zeros_.clear();
  const int64_t row_bytes = spec().k * SizeOf(spec().dense_type);
  for (int64_t i = 0; i < rows; ++i) {
    RETURN_IF_ERROR(QuantizeRow(row + i, bytes + i * row_bytes));
  }
  const int64_t groups = header().groups_per_row();
  if (!holds_scales()) {
    RETURN_IF_ERROR(sink().WriteScales({row, rows, 0, groups, scales_}));
  }
  if (header().has_zeros) {
    RETURN_IF_ERROR(sink().WriteZeros({row, rows, 0, groups, zeros_}));
  }
  return sink().WriteCodes({row, rows, 0, spec().k, codes_});
}

absl::Status QuantizingDecoder::QuantizeRow(int64_t row, const uint8_t* bytes) {
  LoadRow(spec().dense_type, bytes, absl::MakeSpan(row_));
  RETURN_IF_ERROR(CheckWeights(row_, row));
  quantizer_->Quantize(row_.data(), &quantized_);
  const auto append = [](const auto& from, auto* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  append(quantized_.codes, &codes_);
  append(quantized_.zeros, &zeros_);
  if (holds_scales()) {
    if (absmax_.empty()) {
      absmax_.reserve(header().n * header().groups_per_row());
    }
    append(quantized_.scales, &absmax_);
    return absl::OkStatus();
  }
  const ScaleType type = header().scale_type;
  const size_t filled = scales_.size();
  scales_.resize(filled + quantized_.scales.size() * SizeOf(type));
  return StoreScales(type, row, quantized_.scales, scales_.data() + filled,
                     &report().flushed_blocks);
}

}  // namespace

std::unique_ptr<WeightsDecoder> NewDenseDecoder(const WeightsSpec& spec,
                                                WeightsSink* sink) {
  if (spec.quantize_to == QuantizeTarget::kNone) {
    return std::make_unique<KeptDenseDecoder>(spec, sink);
  }
  return std::make_unique<QuantizingDecoder>(spec, sink);
}

}  // namespace qgemm
